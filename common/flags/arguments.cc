#include "common/flags/arguments.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "common/base/log.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/flags/foreign_words.h"
#include "common/flags/help_text.h"

namespace baton {
namespace {

// The number of characters to insert, remove or replace to turn `a` into `b`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // [j]: distance of a[0, i) and b[0, j)
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

constexpr char kSeeHelp[] = "; see --help";

// The remedy for an unknown `name` where one of `names` must stand.
std::string Remedy(absl::string_view name, const std::vector<std::string>& names) {
  const std::string meant = DidYouMean(name, names);
  return meant.empty() ? kSeeHelp : meant;
}

std::string UnknownCommand(const std::string& word, const std::vector<std::string>& names) {
  const std::string advice(AdviceOnCommand(word));
  return absl::StrCat("unknown command '", LogSafe(word), "'",
                      advice.empty() ? Remedy(word, names) : absl::StrCat(": ", advice));
}

// Returns the command that `arguments` name. An error unless a known command is named wherever one
// is needed.
absl::StatusOr<const CLI::App*> FindCommand(const CLI::App& app,
                                            const std::vector<std::string>& arguments) {
  const CLI::App* at = &app;
  for (size_t i = 0; !CommandNames(*at).empty(); ++i) {
    const std::vector<std::string> names = CommandNames(*at);
    if (i == arguments.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("name a command: ", absl::StrJoin(names, ", "), kSeeHelp));
    }
    const std::string& word = arguments[i];
    if (absl::StartsWith(word, "-")) return at;  // a flag: --help, or a wrong one
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      return absl::InvalidArgumentError(UnknownCommand(word, names));
    }
    at = at->get_subcommand(word);
  }
  return at;
}

// The flags of the command, with their dashes.
std::vector<std::string> FlagNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // as in --help
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Refuses flags of several letters after one dash, such as -ngl, which other programs have: CLI11
// would take that one for -n with the value "gl". Values of flags are let through.
absl::Status CheckShortFlags(const CLI::App& command, const std::vector<std::string>& arguments) {
  const std::vector<std::string> names = FlagNames(command);
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    if (!absl::StartsWith(argument, "-")) continue;
    const CLI::Option* option = command.get_option_no_throw(argument);
    if (option != nullptr && option->get_items_expected_min() > 0) ++i;  // its value
    if (option != nullptr || argument.size() < 3 || argument[1] == '-') continue;
    const std::string word = argument.substr(0, argument.find('='));
    if (const std::string advice = AdviceOnFlag(word, names); !advice.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(word, ": ", advice));
    }
  }
  return absl::OkStatus();
}

// Returns what --help with `word` after it asks for. A word that is no group is an argument, unless
// it was likely meant for a group.
absl::StatusOr<HelpRequest> HelpAbout(const std::string& word, const CommandFacts& facts) {
  if (word.empty()) return HelpRequest();
  std::vector<std::string> names;
  for (const FlagFacts& flag : facts.flags) names.push_back(FlagGroupName(flag.group));
  if (std::find(names.begin(), names.end(), word) != names.end()) {
    return HelpRequest{.group = FindFlagGroup(word)};
  }
  const std::string meant = DidYouMean(word, names);
  if (meant.empty()) return HelpRequest();
  return absl::InvalidArgumentError(
      absl::StrCat("--help: there is no group '", LogSafe(word), "'", meant));
}

// Returns what the arguments ask for by --help or --help-all. Empty if they have neither.
absl::StatusOr<std::optional<HelpRequest>> FindHelpRequest(
    const CLI::App& command, const std::vector<std::string>& arguments, const FactsSource& facts) {
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--help-all") return HelpRequest{.all = true};
    if (argument == "--help" || argument == "-h") {
      const bool has_word = i + 1 < arguments.size();
      return HelpAbout(has_word ? arguments[i + 1] : "", facts(command));
    }
    if (absl::StartsWith(argument, "--help=")) {
      return HelpAbout(std::string(absl::StripPrefix(argument, "--help=")), facts(command));
    }
    const CLI::Option* option = command.get_option_no_throw(argument);
    if (option != nullptr && option->get_items_expected_min() > 0) ++i;  // its value
  }
  return std::nullopt;
}

// Prints the help of `command` and ends the process.
[[noreturn]] void ShowHelp(const CommandFacts& facts, const HelpRequest& request) {
  WriteOutput(HelpText(facts, request, HelpColumns(TerminalColumns())));
  std::exit(0);
}

// The arguments in reverse order, as CLI11 takes them. "--name=" becomes "--name" and "", since
// CLI11 would take the next argument for its value.
std::vector<std::string> ReversedArguments(const std::vector<std::string>& given) {
  std::vector<std::string> arguments;
  bool flags = true;  // false after "--"
  for (absl::string_view argument : given) {
    if (argument == "--") flags = false;
    const bool empty_value =
        flags && absl::StartsWith(argument, "--") && argument.find('=') == argument.size() - 1;
    arguments.emplace_back(absl::StripSuffix(argument, empty_value ? "=" : ""));
    if (empty_value) arguments.emplace_back();
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

// The error about arguments that CLI11 did not know. It names the first flag among them, which says
// more than the value that follows the flag.
std::string DescribeExtras(const CLI::App& command, const std::vector<std::string>& extras) {
  const auto flag = std::find_if(extras.begin(), extras.end(), [](const std::string& extra) {
    return absl::StartsWith(extra, "-");
  });
  if (flag == extras.end()) {
    return absl::StrCat("unexpected argument '", LogSafe(extras.front()),
                        "'; quote what has spaces in it");
  }
  const std::string given = flag->substr(0, flag->find('='));
  const std::vector<std::string> names = FlagNames(command);
  if (const std::string advice = AdviceOnFlag(given, names); !advice.empty()) {
    return absl::StrCat(given, ": ", advice);
  }
  return absl::StrCat("unknown flag '", LogSafe(given), "'", Remedy(given, names));
}

}  // namespace

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& names) {
  const std::string* nearest = nullptr;
  size_t least = name.size() / 4 + 2;  // names with this distance or more are not similar
  for (const std::string& candidate : names) {
    const size_t distance = absl::StartsWith(candidate, name) ? 1 : EditDistance(name, candidate);
    if (distance < least) {
      nearest = &candidate;
      least = distance;
    }
  }
  return nearest == nullptr ? "" : absl::StrCat("; did you mean '", *nearest, "'?");
}

void AddHelpFlags(CLI::App& app, const std::string& version) {
  app.set_help_flag("-h,--help", "Show help; with a group's name, all flags of that group")
      ->type_name("[GROUP]");
  app.set_help_all_flag("--help-all", "Show help with all flags");
  app.set_version_flag("-V,--version", version, "Show the version");
}

absl::Status ParseArguments(CLI::App& app, int argc, const char* const* argv,
                            const FactsSource& facts) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (const std::vector<std::string> commands = CommandNames(app); !commands.empty()) {
    arguments = WithOwnCommand(std::move(arguments), commands);
  }
  BATON_ASSIGN_OR_RETURN(const CLI::App* const command, FindCommand(app, arguments));
  BATON_ASSIGN_OR_RETURN(const std::optional<HelpRequest> help,
                         FindHelpRequest(*command, arguments, facts));
  if (help.has_value()) ShowHelp(facts(*command), *help);
  BATON_RETURN_IF_ERROR(CheckShortFlags(*command, arguments));
  try {
    app.parse(ReversedArguments(arguments));
    return absl::OkStatus();
  } catch (const CLI::Success& asked) {  // --version
    std::ostringstream text;
    app.exit(asked, text, text);
    WriteOutput(text.str());
    std::exit(0);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> extras = app.remaining(true);
    return absl::InvalidArgumentError(extras.empty() ? absl::StrCat(LogSafe(error.what()), kSeeHelp)
                                                     : DescribeExtras(*command, extras));
  }
}

}  // namespace baton
