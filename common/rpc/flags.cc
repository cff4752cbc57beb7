#include "common/rpc/flags.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "common/base/status_macros.h"
#include "common/rpc/config_file.h"
#include "common/rpc/flag_value.h"
#include "common/rpc/version.h"

namespace baton {
namespace {

constexpr char kConfigFlag[] = "config";

std::string EnvironmentName(const std::string& flag) {
  return absl::StrCat("BATON_", absl::StrReplaceAll(absl::AsciiStrToUpper(flag), {{"-", "_"}}));
}

std::string FormatNumber(double value) { return absl::StrCat(value); }

}  // namespace

struct FlagSet::Rep {
  using Setter = std::function<absl::Status(const std::string&)>;
  struct Flag {
    std::string name;
    bool repeated = false;
    Setter set;  // one value's text; its error says what is wrong, without the flag
    std::function<void()> clear;   // repeated: drops the default
    std::vector<std::string> raw;  // as parsed from the command line
    CLI::Option* option = nullptr;
    std::vector<std::string> given;  // as resolved, whatever the source
  };

  std::unique_ptr<CLI::App> owned;
  CLI::App* app = nullptr;
  std::string program;
  std::string config_path;
  std::vector<std::unique_ptr<Flag>> flags;

  void Add(const std::string& name, const std::string& help, const std::string& default_text,
           bool repeated, Setter set, std::function<void()> clear = nullptr) {
    auto flag = std::make_unique<Flag>();
    flag->name = name;
    flag->repeated = repeated;
    flag->set = std::move(set);
    flag->clear = std::move(clear);
    flag->option = app->add_option("--" + name, flag->raw, help)->allow_extra_args(false);
    flag->option->type_name(repeated ? "VALUE ..." : "VALUE");
    flag->option->default_str(default_text);
    flags.push_back(std::move(flag));
  }

  // The values of `flag` and where they are from; nothing where it stays at its default.
  struct Source {
    std::vector<std::string> values;
    std::string where;  // "", " (from BATON_X)", " (from FILE)"
  };
  std::optional<Source> Find(const Flag& flag, const ConfigValues& file) const {
    if (flag.option->count() > 0) return Source{flag.raw, ""};
    const std::string variable = EnvironmentName(flag.name);
    if (const char* text = std::getenv(variable.c_str())) {
      return Source{{text}, absl::StrCat(" (from ", variable, ")")};
    }
    const auto entry = file.find(flag.name);
    if (entry == file.end()) return std::nullopt;
    return Source{entry->second, absl::StrCat(" (from ", config_path, ")")};
  }

  absl::Status Apply(Flag& flag, const Source& source) {
    std::vector<std::string> values;
    if (flag.repeated) {
      for (const std::string& value : source.values) {
        for (absl::string_view part : absl::StrSplit(value, ',', absl::SkipWhitespace())) {
          values.emplace_back(absl::StripAsciiWhitespace(part));
        }
      }
      flag.clear();
    } else if (source.values.size() != 1 && !source.where.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag.name, source.where, " takes one value, not an array"));
    } else {
      values.push_back(source.values.back());
    }
    for (const std::string& value : values) {
      if (const absl::Status status = flag.set(value); !status.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", flag.name, source.where, ": '", value, "' ", status.message()));
      }
    }
    flag.given = std::move(values);
    return absl::OkStatus();
  }

  absl::Status CheckKeys(const ConfigValues& file) const {
    for (const auto& [key, values] : file) {
      const auto has = [&](const std::string& name) {
        return std::any_of(flags.begin(), flags.end(),
                           [&](const auto& flag) { return flag->name == name; });
      };
      if (has(key)) continue;
      const std::string dashed = absl::StrReplaceAll(key, {{"_", "-"}});
      return absl::InvalidArgumentError(absl::StrCat(
          config_path, ": unknown key '", key, "'; ",
          has(dashed) ? absl::StrCat("write ", dashed)
                      : "keys are the names of flags without dashes in front: see --help"));
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

void FlagSet::AddString(const std::string& name, std::string& value, const std::string& help,
                        std::vector<std::string> choices) {
  const std::string all =
      choices.empty() ? help : absl::StrCat(help, ": ", absl::StrJoin(choices, ", "));
  rep_->Add(name, all, value, false, [&value, choices](const std::string& text) {
    if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("is not one of ", absl::StrJoin(choices, ", ")));
    }
    value = text;
    return absl::OkStatus();
  });
}

void FlagSet::AddStrings(const std::string& name, std::vector<std::string>& values,
                         const std::string& help) {
  rep_->Add(
      name, help, absl::StrJoin(values, ","), true,
      [&values](const std::string& text) {
        values.push_back(text);
        return absl::OkStatus();
      },
      [&values] { values.clear(); });
}

void FlagSet::AddInt(const std::string& name, int& value, int min, int max,
                     const std::string& help) {
  rep_->Add(name, help, absl::StrCat(value), false, [&value, min, max](const std::string& text) {
    const bool negative = !text.empty() && text[0] == '-';
    const auto count = ParseCount(negative ? text.substr(1) : text);
    const bool fits = count.ok() && *count <= uint64_t{1} << 31;
    const int64_t number = fits ? static_cast<int64_t>(*count) * (negative ? -1 : 1) : 0;
    if (!fits || number < min || number > max) {
      return absl::InvalidArgumentError(
          absl::StrCat("is not a whole number from ", min, " to ", max));
    }
    value = static_cast<int>(number);
    return absl::OkStatus();
  });
}

void FlagSet::AddDouble(const std::string& name, double& value, double min, double max,
                        const std::string& help) {
  rep_->Add(name, help, FormatNumber(value), false, [&value, min, max](const std::string& text) {
    const auto number = ParseNumber(text);
    if (!number.ok() || !(*number >= min && *number <= max)) {
      return absl::InvalidArgumentError(
          absl::StrCat("is not a number from ", FormatNumber(min), " to ", FormatNumber(max)));
    }
    value = *number;
    return absl::OkStatus();
  });
}

void FlagSet::AddBytes(const std::string& name, uint64_t& value, const std::string& help) {
  rep_->Add(name, help, absl::StrCat(value), false, [&value](const std::string& text) {
    BATON_ASSIGN_OR_RETURN(value, ParseCount(text));
    return absl::OkStatus();
  });
}

void FlagSet::AddDuration(const std::string& name, absl::Duration& value, absl::Duration min,
                          absl::Duration max, const std::string& help) {
  rep_->Add(name, help, absl::FormatDuration(value), false,
            [&value, min, max](const std::string& text) -> absl::Status {
              BATON_ASSIGN_OR_RETURN(const absl::Duration duration, ParseDurationValue(text));
              if (duration < min || duration > max) {
                return absl::InvalidArgumentError(absl::StrCat(
                    "is not from ", absl::FormatDuration(min), " to ", absl::FormatDuration(max)));
              }
              value = duration;
              return absl::OkStatus();
            });
}

void FlagSet::AddBool(const std::string& name, bool& value, const std::string& help) {
  auto flag = std::make_unique<Rep::Flag>();
  flag->name = name;
  flag->set = [&value](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(value, ParseBool(text));
    return absl::OkStatus();
  };
  flag->option = rep_->app->add_flag(absl::StrCat("--", name, ",!--no-", name), flag->raw, help);
  rep_->flags.push_back(std::move(flag));
}

absl::Status FlagSet::Parse(int argc, const char* const* argv) {
  try {
    rep_->app->parse(argc, const_cast<char**>(argv));
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(absl::StrCat(error.what(), "; see --help"));
  }
  return Resolve();
}

void FlagSet::ParseOrExit(int argc, const char* const* argv) {
  try {
    rep_->app->parse(argc, const_cast<char**>(argv));
  } catch (const CLI::Success& success) {
    std::exit(rep_->app->exit(success));
  } catch (const CLI::ParseError& error) {
    std::exit(ExitUsage(rep_->program,
                        absl::InvalidArgumentError(absl::StrCat(error.what(), "; see --help"))));
  }
  if (const absl::Status status = Resolve(); !status.ok()) {
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
    if (const auto source = rep_->Find(*flag, file)) {
      BATON_RETURN_IF_ERROR(rep_->Apply(*flag, *source));
    }
  }
  return absl::OkStatus();
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

int ExitUsage(const std::string& program, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), std::string(status.message()).c_str());
  return kExitUsage;
}

}  // namespace baton
