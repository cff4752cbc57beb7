// What --help says of a command line, as data for help texts, man pages and completions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/flags/flag_group.h"

namespace CLI {
class App;
}

namespace baton {

// The only argument of a command line that asks for these facts. --help does not list it.
inline constexpr char kFactsFlag[] = "--help-json";

struct FlagFacts {
  std::string name;        // without dashes
  std::string short_name;  // one letter; empty: none
  std::string help;
  std::string placeholder;           // stands for the value, such as HOST:PORT; empty for a switch
  std::string default_text;          // empty: none, or nothing; "on" for a switch that is on
  std::vector<std::string> choices;  // the allowed values; empty: not a fixed set
  FlagGroup group = FlagGroup::kGeneral;
  bool takes_value = true;  // as --name=VALUE; else it is a switch
  bool negatable = false;   // a switch that --no-name turns off
  bool repeated = false;    // may be given several times, each adding a value
};

// An argument without a name.
struct ArgumentFacts {
  std::string name;
  std::string help;
  bool repeated = false;
};

// A command line that works, and what it does.
struct Example {
  std::string command;
  std::string meaning;
};

// A command right below another one, such as `init` below `baton certs`.
struct SubcommandFacts {
  std::string name;
  std::string description;
};

struct CommandFacts {
  std::string program;  // the words that call it, such as "baton certs init"
  std::string description;
  std::string footer;  // further lines of --help-all; may be empty
  std::vector<FlagFacts> flags;
  std::vector<std::string> first;  // names of the flags that plain --help shows; empty: all
  std::vector<ArgumentFacts> arguments;
  std::vector<Example> examples;
  std::vector<SubcommandFacts> subcommands;
};

// Returns the facts of an app, which is a program or one of its (sub)commands.
using FactsSource = std::function<CommandFacts(const CLI::App& app)>;

// Whether the command line has kFactsFlag, and nothing else.
bool AsksForFacts(int argc, const char* const* argv);

// The facts of `app` that CLI11 knows. FlagSet::Facts adds the others.
CommandFacts FactsOf(const CLI::App& app, const std::string& program);

// An array of the commands in JSON, each with the fields above and the program's version.
std::string FactsJson(absl::Span<const CommandFacts> commands);

}  // namespace baton
