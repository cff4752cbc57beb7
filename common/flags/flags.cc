#include "common/flags/flags.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/flags/arguments.h"
#include "common/flags/config_file.h"
#include "common/flags/flag_value.h"

namespace baton {
namespace {

constexpr char kConfigFlag[] = "config";

std::string EnvironmentName(const std::string& flag) {
  return absl::StrCat("BATON_", absl::StrReplaceAll(absl::AsciiStrToUpper(flag), {{"-", "_"}}));
}

}  // namespace

struct FlagSet::Rep {
  struct Flag {
    std::string name;
    Value value;
    std::vector<std::string> raw;  // texts from the command line
    CLI::Option* option = nullptr;
    std::string positional_name;            // name of its positional form; empty: none
    std::optional<std::string> positional;  // text of its positional form on the command line
    std::vector<std::string> given;         // texts that were resolved from any source
    std::string where;                      // source of `given`: "", " (from BATON_X)" ...
  };

  std::unique_ptr<CLI::App> owned;
  CLI::App* app = nullptr;
  std::string program;
  std::string config_path;
  std::vector<std::unique_ptr<Flag>> flags;

  // Makes a flag. `name` may have a short form before a comma, as in FlagSet::Add.
  Flag& NewFlag(const std::string& name, Value value) {
    auto flag = std::make_unique<Flag>();
    flag->name = name.substr(name.find(',') + 1);
    flag->value = std::move(value);
    return *flags.emplace_back(std::move(flag));
  }
  // The names in CLI11's form: "-n,--max-tokens" for "n,max-tokens".
  static std::string OptionNames(const std::string& name) {
    const size_t comma = name.find(',');
    return comma == std::string::npos
               ? absl::StrCat("--", name)
               : absl::StrCat("-", name.substr(0, comma), ",--", name.substr(comma + 1));
  }

  // The flag `name`; null if there is none.
  Flag* Find(const std::string& name) const {
    const auto flag = std::find_if(flags.begin(), flags.end(),
                                   [&](const auto& each) { return each->name == name; });
    return flag == flags.end() ? nullptr : flag->get();
  }
  Flag& Get(const std::string& name) const {
    Flag* flag = Find(name);
    BATON_CHECK(flag != nullptr, "the name of a flag of this set");
    return *flag;
  }

  // The values of a flag and their source. No values: the flag stays at its default.
  struct Source {
    std::vector<std::string> values{};
    std::string where{};
  };
  absl::StatusOr<Source> Find(const Flag& flag, const ConfigValues& file) const {
    if (flag.positional.has_value()) {
      if (flag.option->count() == 0) return Source{{*flag.positional}};
      return absl::InvalidArgumentError(absl::StrCat(flag.positional_name, " and --", flag.name,
                                                     " say the same; give one of them"));
    }
    if (flag.option->count() > 0) return Source{flag.raw};
    const std::string variable = EnvironmentName(flag.name);
    if (const char* text = std::getenv(variable.c_str())) {
      return Source{{text}, absl::StrCat(" (from ", variable, ")")};
    }
    const auto entry = file.find(flag.name);
    if (entry == file.end()) return Source{};
    return Source{entry->second, absl::StrCat(" (from ", config_path, ")")};
  }

  static absl::Status Apply(Flag& flag, const Source& source) {
    std::vector<std::string> values = source.values;
    if (flag.value.clear != nullptr) {
      if (flag.value.split_at_commas) values = SplitEach(values);
      flag.value.clear();
    } else if (values.size() > 1 && !source.where.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag.name, source.where, " takes one value, not an array"));
    } else {
      values = {values.back()};
    }
    for (const std::string& value : values) {
      if (const absl::Status status = flag.value.set(value); !status.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("--", flag.name, source.where, ": '",
                                                       LogSafe(value), "' ", status.message()));
      }
    }
    flag.given = std::move(values);
    flag.where = source.where;
    return absl::OkStatus();
  }
  static std::vector<std::string> SplitEach(const std::vector<std::string>& texts) {
    std::vector<std::string> values;
    for (const std::string& text : texts) {
      for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
        values.emplace_back(absl::StripAsciiWhitespace(part));
      }
    }
    return values;
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& flag : flags) names.push_back(flag->name);
    return names;
  }

  absl::Status CheckKeys(const ConfigValues& file) const {
    for (const auto& [key, values] : file) {
      if (Find(key) != nullptr) continue;
      const std::string meant = DidYouMean(key, Names());
      return absl::InvalidArgumentError(absl::StrCat(
          config_path, ": unknown key '", LogSafe(key), "'",
          meant.empty() ? "; keys are the names of flags without dashes in front: see --help"
                        : meant));
    }
    return absl::OkStatus();
  }
};

FlagSet::FlagSet(const std::string& program, const std::string& description)
    : rep_(std::make_unique<Rep>()) {
  rep_->owned = std::make_unique<CLI::App>(description, program);
  rep_->app = rep_->owned.get();
  rep_->program = program;
  rep_->app->set_version_flag("--version", absl::StrCat(program, " ", Version()));
  rep_->app->add_option("--config", rep_->config_path, "TOML file with flags as keys");
}

FlagSet::FlagSet(CLI::App& app) : rep_(std::make_unique<Rep>()) {
  rep_->app = &app;
  rep_->program = app.get_name();
  app.add_option("--config", rep_->config_path, "TOML file with flags as keys");
}

FlagSet::~FlagSet() = default;

void FlagSet::Add(const std::string& name, const std::string& help, Value value) {
  Rep::Flag& flag = rep_->NewFlag(name, std::move(value));
  flag.option = rep_->app->add_option(Rep::OptionNames(name), flag.raw, help);
  flag.option->allow_extra_args(false)->type_name("VALUE");
  if (flag.value.clear == nullptr) flag.option->expected(1)->take_last();
  flag.option->default_str(flag.value.default_text);
}

void FlagSet::AddBool(const std::string& name, bool& value, const std::string& help) {
  AddBool(
      name, [&value](bool given) { value = given; }, help);
}

void FlagSet::AddBool(const std::string& name, std::function<void(bool)> take,
                      const std::string& help) {
  const auto set = [take = std::move(take)](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const bool value, ParseBool(text));
    take(value);
    return absl::OkStatus();
  };
  Rep::Flag& flag = rep_->NewFlag(name, {.set = set});
  flag.option = rep_->app->add_flag(absl::StrCat("--", name, ",!--no-", name), flag.raw, help);
}

void FlagSet::AddPositional(const std::string& name, std::optional<std::string>& value,
                            const std::string& help) {
  rep_->app->add_option(name, value, help)->type_name("");
}

void FlagSet::AllowPositional(const std::string& flag, const std::string& name,
                              const std::string& help) {
  Rep::Flag& named = rep_->Get(flag);
  named.positional_name = name;
  AddPositional(name, named.positional, help);
}

absl::Status FlagSet::Parse(int argc, const char* const* argv) {
  BATON_RETURN_IF_ERROR(ParseArguments(*rep_->app, argc, argv));
  return Resolve();
}

void FlagSet::ParseOrExit(int argc, const char* const* argv) {
  if (const absl::Status status = Parse(argc, argv); !status.ok()) {
    std::exit(ExitUsage(rep_->program, status));
  }
}

absl::Status FlagSet::Resolve() {
  if (rep_->config_path.empty()) {
    if (const char* path = std::getenv(EnvironmentName(kConfigFlag).c_str())) {
      rep_->config_path = path;
    }
  }
  ConfigValues file;
  if (!rep_->config_path.empty()) {
    BATON_ASSIGN_OR_RETURN(file, ReadConfigFile(rep_->config_path));
    BATON_RETURN_IF_ERROR(rep_->CheckKeys(file));
  }
  for (const auto& flag : rep_->flags) {
    BATON_ASSIGN_OR_RETURN(const Rep::Source source, rep_->Find(*flag, file));
    if (!source.values.empty()) BATON_RETURN_IF_ERROR(Rep::Apply(*flag, source));
  }
  return absl::OkStatus();
}

absl::Status FlagSet::Set(const std::string& name, const std::string& text) {
  Rep::Flag* flag = rep_->Find(name);
  if (flag == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no '", LogSafe(name), "'", DidYouMean(name, Names())));
  }
  return Rep::Apply(*flag, {.values = {text}});
}

bool FlagSet::Given(const std::string& name) const { return !rep_->Get(name).given.empty(); }

std::string FlagSet::Label(const std::string& name) const {
  return absl::StrCat("--", name, rep_->Get(name).where);
}

absl::Status FlagSet::CheckNotBoth(const std::string& name, const std::string& other) const {
  if (!Given(name) || !Given(other)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Label(name), " and ", Label(other), " exclude each other; give one of them"));
}

absl::Status FlagSet::CheckNeeds(const std::string& name, const std::string& other) const {
  if (!Given(name) || Given(other)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Label(name), " is for --", other, " only; give that too"));
}

std::vector<std::string> FlagSet::GivenArguments() const {
  std::vector<std::string> arguments;
  for (const auto& flag : rep_->flags) {
    for (const std::string& value : flag->given) {
      arguments.push_back(absl::StrCat("--", flag->name, "=", value));
    }
  }
  return arguments;
}

std::vector<std::string> FlagSet::Names() const { return rep_->Names(); }

int ExitUsage(const std::string& program, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), std::string(status.message()).c_str());
  return kExitUsage;
}

}  // namespace baton
