#include "common/flags/flags.h"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/standard_error.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/flags/arguments.h"
#include "common/flags/flag.h"
#include "common/flags/flag_sources.h"
#include "common/flags/foreign_words.h"
#include "common/flags/known_variables.h"

namespace baton {
namespace {

// The parts of a name as FlagSet::Add takes it.
struct NameParts {
  std::string letter;       // empty: none
  std::string name;         // without dashes
  std::string placeholder;  // empty: the one of the flag's kind
};

NameParts Split(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  const std::string names = text.substr(0, equals);
  const size_t comma = names.find(',');
  const bool has_letter = comma != std::string::npos;
  return {.letter = has_letter ? names.substr(0, comma) : "",
          .name = has_letter ? names.substr(comma + 1) : names,
          .placeholder = equals < text.size() ? text.substr(equals + 1) : ""};
}

// The names that --help has, in CLI11's form: "-n,--max-tokens". The letter may be that of other
// programs.
std::string OptionNames(const NameParts& parts) {
  if (!parts.letter.empty()) return absl::StrCat("-", parts.letter, ",--", parts.name);
  for (const std::string& other : OtherNamesOf(parts.name)) {
    if (other.size() == 2) return absl::StrCat(other, ",--", parts.name);
  }
  return absl::StrCat("--", parts.name);
}

// A name on the command line that no help has. Without a group an option is in none.
struct HiddenFlag {
  std::string name;  // with its dashes
  std::vector<std::string> raw{};
  CLI::Option* option = nullptr;

  void AddTo(CLI::App& app, bool has_one_value) {
    option = app.add_option(name, raw)->group("")->allow_extra_args(false);
    if (has_one_value) option->expected(1)->take_last();
  }
  bool given() const { return option != nullptr && option->count() > 0; }
};

// A flag and its places on the command line.
struct Declared {
  Declared(Flag declared, FlagGroup its_group) : flag(std::move(declared)), group(its_group) {}

  // Adds the names that other programs have for the flag.
  void AddOtherNames(CLI::App& app, bool has_one_value) {
    for (const std::string& name : OtherNamesOf(flag.name())) {
      if (name.size() > 2) others.emplace_back(HiddenFlag{.name = name}).AddTo(app, has_one_value);
    }
    if (flag.name() != kHostAndPortFlag) return;
    host.AddTo(app, /*has_one_value=*/true);
    port.AddTo(app, /*has_one_value=*/true);
  }

  // What the command line has for it; nothing if it has nothing.
  absl::StatusOr<FlagTexts> Arguments() const {
    std::vector<std::pair<std::string, FlagTexts>> forms;  // each that is given, and its texts
    if (positional.has_value()) forms.push_back({positional_name, {.values = {*positional}}});
    if (option->count() > 0) forms.push_back({absl::StrCat("--", flag.name()), {.values = raw}});
    for (const HiddenFlag& other : others) {
      const std::string where = absl::StrCat(" (from ", other.name, ")");
      if (other.given()) forms.push_back({other.name, {.values = other.raw, .where = where}});
    }
    if (host.given() || port.given()) {
      BATON_ASSIGN_OR_RETURN(const std::string address,
                             AddressOf(host.given() ? host.raw.back() : kDefaultHost,
                                       port.given() ? port.raw.back() : kDefaultPort));
      forms.push_back(
          {"--host with --port", {.values = {address}, .where = " (from --host and --port)"}});
    }
    if (forms.empty()) return FlagTexts();
    if (forms.size() == 1) return forms.front().second;
    return absl::InvalidArgumentError(absl::StrCat(forms[0].first, " and ", forms[1].first,
                                                   " set the same value; give one of them"));
  }

  // The sentence that warns of values on the command line that another one replaces. Empty if there
  // are none.
  std::string OtherValues() const {
    const std::vector<std::string>& given = option->results();
    const bool has_one = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeLast;
    const auto differs = [&given](const std::string& value) { return value != given.back(); };
    if (!has_one || std::none_of(given.begin(), given.end(), differs)) return "";
    return absl::StrCat("--", flag.name(), " is given ", given.size(), " times; the last value, '",
                        LogSafe(given.back()), "', counts");
  }

  Flag flag;
  FlagGroup group;
  std::vector<std::string> raw;  // texts of its named form
  CLI::Option* option = nullptr;
  // Names that other programs have for the flag. A list, since CLI11 keeps pointers to the texts.
  std::list<HiddenFlag> others{};
  HiddenFlag host{.name = "--host"};      // used by kHostAndPortFlag only
  HiddenFlag port{.name = "--port"};      // used by kHostAndPortFlag only
  std::string positional_name;            // name of its positional form; empty: none
  std::optional<std::string> positional;  // text of its positional form
};

// A flag of other programs.
struct Foreign {
  std::string name;
  std::string advice;
  std::vector<std::string> raw{};  // its values, which no error repeats: they may be secrets
  CLI::Option* option = nullptr;
};

}  // namespace

struct FlagSet::Rep {
  std::unique_ptr<CLI::App> owned;
  CLI::App* app = nullptr;
  std::string program;
  std::string config_path;                     // as --config names it
  FlagGroup flag_group = FlagGroup::kGeneral;  // of flags that are added
  std::vector<std::string> first;              // names of the flags that plain --help shows
  std::vector<Example> examples;
  std::vector<std::unique_ptr<Declared>> flags;
  std::vector<std::unique_ptr<Foreign>> foreign;

  Declared& NewFlag(const NameParts& parts, Value value) {
    if (!parts.placeholder.empty()) value.placeholder = parts.placeholder;
    return *flags.emplace_back(
        std::make_unique<Declared>(Flag(parts.name, std::move(value)), flag_group));
  }
  void AddConfigFlag() {
    app->add_option("--config", config_path, "TOML file with flags as keys")->type_name("FILE");
  }
  // The flag `name`; null if there is none.
  Declared* Find(const std::string& name) const {
    const auto found = std::find_if(flags.begin(), flags.end(),
                                    [&](const auto& each) { return each->flag.name() == name; });
    return found == flags.end() ? nullptr : found->get();
  }
  // Prints what was given without an effect.
  void Warn() const;
  Declared& Get(const std::string& name) const {
    Declared* const declared = Find(name);
    BATON_CHECK(declared != nullptr, "the name of a flag of this set");
    return *declared;
  }
};

void FlagSet::Rep::Warn() const {
  std::string name = app->get_name();
  for (const CLI::App* group = app->get_parent(); group != nullptr; group = group->get_parent()) {
    name = absl::StrCat(group->get_name(), " ", name);
  }
  const auto warn = [&name](const std::string& warning) {
    WriteErrorLine(name, absl::StrCat("warning: ", warning));
  };
  std::vector<std::string> names;
  for (const auto& declared : flags) {
    names.push_back(declared->flag.name());
    const std::string given = declared->OtherValues();
    if (!given.empty()) warn(given);
  }
  if (!TakeVariablesCheck()) return;
  for (const std::string& sentence : UnknownVariables(names)) warn(sentence);
}

FlagSet::FlagSet(const std::string& program, const std::string& description)
    : rep_(std::make_unique<Rep>()) {
  rep_->owned = std::make_unique<CLI::App>(description, program);
  rep_->app = rep_->owned.get();
  rep_->program = program;
  AddHelpFlags(*rep_->app, absl::StrCat(program, " ", Version()));
  rep_->AddConfigFlag();
}

FlagSet::FlagSet(CLI::App& app) : rep_(std::make_unique<Rep>()) {
  rep_->app = &app;
  rep_->program = app.get_name();
  rep_->AddConfigFlag();
}

FlagSet::~FlagSet() = default;

void FlagSet::SetGroup(FlagGroup group) { rep_->flag_group = group; }

void FlagSet::ShowFirst(std::vector<std::string> names) {
  for (const std::string& name : names) rep_->Get(name);
  rep_->first = std::move(names);
}

void FlagSet::AddExample(const std::string& command, const std::string& meaning) {
  rep_->examples.push_back({.command = command, .meaning = meaning});
}

void FlagSet::Add(const std::string& name, const std::string& help, Value value) {
  const bool has_one_value = value.clear == nullptr;
  const NameParts parts = Split(name);
  Declared& declared = rep_->NewFlag(parts, std::move(value));
  declared.option = rep_->app->add_option(OptionNames(parts), declared.raw, help);
  declared.option->allow_extra_args(false);
  if (has_one_value) declared.option->expected(1)->take_last();
  declared.AddOtherNames(*rep_->app, has_one_value);
}

void FlagSet::AddString(const std::string& name, std::string& value, const std::string& help,
                        const std::vector<std::string>& choices) {
  if (choices.empty()) return Add(name, help, StringValue(value));
  AddChoice(name, value, help, choices,
            [&value, choices](size_t index) { value = choices[index]; });
}

void FlagSet::AddChoice(const std::string& name, const std::string& default_text,
                        const std::string& help, const std::vector<std::string>& choices,
                        std::function<void(size_t index)> take) {
  Add(name, help, ChoiceValue(default_text, choices, std::move(take)));
}

void FlagSet::AddBool(const std::string& name, bool& value, const std::string& help) {
  AddSwitch(name, BoolValue([&value](bool given) { value = given; }, value), help);
}

void FlagSet::AddBool(const std::string& name, std::function<void(bool)> take,
                      const std::string& help) {
  AddSwitch(name, BoolValue(std::move(take), /*is_on=*/false), help);
}

void FlagSet::AddSwitch(const std::string& name, Value value, const std::string& help) {
  Declared& declared =
      rep_->NewFlag({.letter = "", .name = name, .placeholder = ""}, std::move(value));
  declared.option =
      rep_->app->add_flag(absl::StrCat("--", name, ",!--no-", name), declared.raw, help);
}

void FlagSet::AddPositional(const std::string& name, std::optional<std::string>& value,
                            const std::string& help) {
  rep_->app->add_option(name, value, help)->type_name("");
}

void FlagSet::AddPositionals(const std::string& name, std::vector<std::string>& values,
                             const std::string& help) {
  rep_->app->add_option(name, values, help)->type_name("");
}

void FlagSet::AllowPositional(const std::string& flag, const std::string& name,
                              const std::string& help) {
  Declared& named = rep_->Get(flag);
  named.positional_name = name;
  AddPositional(name, named.positional, help);
}

void FlagSet::AddForeign(const std::string& name, const std::string& advice) {
  Foreign& foreign = *rep_->foreign.emplace_back(
      std::make_unique<Foreign>(Foreign{.name = name, .advice = advice}));
  // Without a group an option is in no help.
  foreign.option = rep_->app->add_option(OptionNames(Split(name)), foreign.raw)->group("");
  foreign.option->expected(0, CLI::detail::expected_max_vector_size);
}

absl::Status FlagSet::Parse(int argc, const char* const* argv) {
  const auto facts = [this](const CLI::App&) { return Facts(rep_->program); };
  BATON_RETURN_IF_ERROR(ParseArguments(*rep_->app, argc, argv, facts));
  return Resolve();
}

void FlagSet::ParseOrExit(int argc, const char* const* argv) {
  if (AsksForFacts(argc, argv)) {
    WriteOutput(FactsJson({Facts(rep_->program)}));
    std::exit(0);
  }
  if (const absl::Status status = Parse(argc, argv); !status.ok()) {
    std::exit(ExitUsage(rep_->program, status));
  }
}

absl::Status FlagSet::Resolve() {
  for (const auto& foreign : rep_->foreign) {
    if (foreign->option->count() == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", foreign->name, ": ", foreign->advice));
  }
  BATON_ASSIGN_OR_RETURN(const FlagSources sources, FlagSources::Read(rep_->config_path));
  BATON_RETURN_IF_ERROR(sources.CheckKeys(Names()));
  for (const auto& declared : rep_->flags) {
    BATON_ASSIGN_OR_RETURN(FlagTexts texts, declared->Arguments());
    if (texts.values.empty()) texts = sources.Find(declared->flag.name());
    BATON_RETURN_IF_ERROR(declared->flag.Take(texts));
  }
  rep_->Warn();
  return absl::OkStatus();
}

absl::Status FlagSet::Set(const std::string& name, const std::string& text) {
  Declared* const declared = rep_->Find(name);
  if (declared != nullptr) return declared->flag.Take({.values = {text}});
  return absl::InvalidArgumentError(
      absl::StrCat("there is no setting '", LogSafe(name), "'", DidYouMean(name, Names())));
}

bool FlagSet::Given(const std::string& name) const { return !rep_->Get(name).flag.given().empty(); }

std::string FlagSet::Label(const std::string& name) const { return rep_->Get(name).flag.Label(); }

absl::Status FlagSet::CheckNotBoth(const std::string& name, const std::string& other) const {
  if (!Given(name) || !Given(other)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Label(name), " and ", Label(other), " exclude each other; give one of them"));
}

absl::Status FlagSet::CheckNeeds(const std::string& name, const std::string& other) const {
  if (!Given(name) || Given(other)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Label(name), " has an effect only with --", other, "; give that flag too"));
}

std::vector<std::string> FlagSet::GivenArguments() const {
  std::vector<std::string> arguments;
  for (const auto& declared : rep_->flags) {
    for (const std::string& value : declared->flag.given()) {
      arguments.push_back(absl::StrCat("--", declared->flag.name(), "=", value));
    }
  }
  return arguments;
}

std::vector<std::string> FlagSet::Names() const {
  std::vector<std::string> names;
  for (const auto& declared : rep_->flags) names.push_back(declared->flag.name());
  return names;
}

CommandFacts FlagSet::Facts(const std::string& program) const {
  CommandFacts facts = FactsOf(*rep_->app, program);
  for (FlagFacts& flag : facts.flags) {
    const Declared* const declared = rep_->Find(flag.name);
    if (declared == nullptr) continue;
    flag.choices = declared->flag.choices();
    flag.placeholder = declared->flag.placeholder();
    flag.default_text = declared->flag.default_text();
    flag.group = declared->group;
  }
  facts.first = rep_->first;
  facts.examples = rep_->examples;
  return facts;
}

int ExitUsage(const std::string& program, const absl::Status& status) {
  WriteErrorLine(program, status.message());
  return kExitUsage;
}

}  // namespace baton
