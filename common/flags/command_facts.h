// Machine-readable facts about a command line, from which man pages and completions are made.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace CLI {
class App;
}

namespace baton {

// The only argument of a command line that asks for these facts. --help does not list it.
inline constexpr char kFactsFlag[] = "--help-json";

struct FlagFacts {
  std::string name;                  // without dashes
  std::string short_name;            // one letter; empty: none
  std::string help;                  // with the choices, as --help has it
  std::string default_text;          // empty: none, or nothing
  std::vector<std::string> choices;  // the allowed values; empty: not a fixed set
  bool takes_value = true;           // as --name=VALUE; else it is a switch
  bool negatable = false;            // a switch that --no-name turns off
  bool repeated = false;             // may be given several times, each adding a value
};

// An argument without a name.
struct ArgumentFacts {
  std::string name;
  std::string help;
  bool repeated = false;
};

struct CommandFacts {
  std::string program;  // the words that call it, such as "baton certs init"
  std::string description;
  std::string footer;  // what --help says below the flags; may be empty
  std::vector<FlagFacts> flags;
  std::vector<ArgumentFacts> arguments;
};

// Whether the command line has kFactsFlag, and nothing else.
bool AsksForFacts(int argc, const char* const* argv);

// The facts of `app` alone, without its subcommands. CLI11 does not know choices, so FlagSet::Facts
// adds them.
CommandFacts FactsOf(const CLI::App& app, const std::string& program);

// An array of the commands in JSON, each with the fields above and the program's version.
std::string FactsJson(absl::Span<const CommandFacts> commands);

}  // namespace baton
