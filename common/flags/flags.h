// Command-line flags that are also environment variables and keys of a TOML file.
//
// A flag --some-name is also the variable BATON_SOME_NAME of the environment and the key
// `some-name` of the file that --config names. The command line takes precedence over the
// environment, then come the file and the default. Errors name the flag, the source of the value,
// the value, and what would be right. Counts of tokens and bytes may have a suffix: k, m, g, kB, MB
// and GB are powers of 1000; K, M, G, KiB, MiB and GiB are powers of 1024. Durations have a unit:
// 250ms, 30s, 2m.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/flags/command_facts.h"
#include "common/flags/flag_kinds.h"

namespace CLI {
class App;
}

namespace baton {

// Exit code of a process whose flags, files or addresses are wrong.
inline constexpr int kExitUsage = 2;

// The flags of a program or of a subcommand. Single-threaded. It borrows the values that flags are
// bound to, which must outlive it.
class FlagSet {
 public:
  // Makes the flags of a program, with --config, --help and --version.
  FlagSet(const std::string& program, const std::string& description);
  // Makes the flags of a (sub)command, with --config. The caller parses the command line with
  // `app` and then calls Resolve(). Borrows `app`.
  explicit FlagSet(CLI::App& app);
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  using Value = FlagValue;
  // Sets the group of the flags that are added from now on. Without it they are in kGeneral.
  void SetGroup(FlagGroup group);
  // Names the flags that plain --help shows, without dashes and in this order. Without it plain
  // --help shows all. REQUIRES: the flags were added.
  void ShowFirst(std::vector<std::string> names);
  // Adds a command line to the examples of --help.
  void AddExample(const std::string& command, const std::string& meaning);

  // Adds a flag. `name` has no dashes. It may begin with a letter: "n,max-tokens" is -n as well as
  // --max-tokens. It may end with the placeholder that --help shows for the value, which otherwise
  // depends on the kind: "model=FILE". `help` is a noun phrase or an imperative sentence; --help
  // adds the default and the allowed values. The functions below add flags of one kind
  // (flag_kinds.h); the present content of `value` is the default.
  void Add(const std::string& name, const std::string& help, Value value);

  // `choices` are the allowed values; empty: any.
  void AddString(const std::string& name, std::string& value, const std::string& help,
                 const std::vector<std::string>& choices = {});
  // One of the named values. The first name of the present value is the default's.
  template <typename T>
  void AddNamed(const std::string& name, T& value, const std::string& help,
                const std::vector<std::pair<std::string, T>>& named) {
    std::vector<std::string> choices;
    std::string present;
    for (const auto& [choice, meaning] : named) {
      choices.push_back(choice);
      if (present.empty() && meaning == value) present = choice;
    }
    AddChoice(name, present, help, choices,
              [&value, named](size_t index) { value = named[index].second; });
  }
  // Values are given by repeating the flag or separated by commas.
  void AddStrings(const std::string& name, std::vector<std::string>& values,
                  const std::string& help) {
    Add(name, help, StringsValue(values));
  }
  // Values are given by repeating the flag. Commas belong to a value.
  void AddTexts(const std::string& name, std::vector<std::string>& values,
                const std::string& help) {
    Add(name, help, TextsValue(values));
  }
  // An address such as host:port, in the form of NormalAddress. It may be empty if the default is.
  void AddAddress(const std::string& name, std::string& value, const std::string& help) {
    Add(name, help, AddressValue(value));
  }
  void AddAddresses(const std::string& name, std::vector<std::string>& values,
                    const std::string& help) {
    Add(name, help, AddressesValue(values));
  }
  void AddInt(const std::string& name, int& value, int min, int max, const std::string& help) {
    Add(name, help, IntValue(value, min, max));
  }
  void AddInts(const std::string& name, std::vector<int>& values, int min, int max,
               const std::string& help) {
    Add(name, help, IntsValue(values, min, max));
  }
  void AddDouble(const std::string& name, double& value, double min, double max,
                 const std::string& help) {
    Add(name, help, DoubleValue(value, min, max));
  }
  void AddBytes(const std::string& name, uint64_t& value, const std::string& help) {
    Add(name, help, BytesValue(value));
  }
  void AddDuration(const std::string& name, absl::Duration& value, absl::Duration min,
                   absl::Duration max, const std::string& help) {
    Add(name, help, DurationValue(value, min, max));
  }
  // A boolean is given as --name, --name=false or --no-name.
  void AddBool(const std::string& name, bool& value, const std::string& help);
  // Off by default.
  void AddBool(const std::string& name, std::function<void(bool)> take, const std::string& help);

  // Adds an argument without a name, which has no environment variable and no key in the file.
  void AddPositional(const std::string& name, std::optional<std::string>& value,
                     const std::string& help);
  // Adds arguments without a name, any number of them.
  void AddPositionals(const std::string& name, std::vector<std::string>& values,
                      const std::string& help);
  // Lets the value of `flag` be given as an argument without a name: FILE for --model FILE. Giving
  // both is an error. REQUIRES: `flag` was added and has one value.
  void AllowPositional(const std::string& flag, const std::string& name, const std::string& help);

  // Answers a flag that other programs have and this one has not: giving it, with any values, is an
  // error with `advice`, which names what to give in its place. The flag is in no help, no
  // environment variable and no file.
  void AddForeign(const std::string& name, const std::string& advice);

  // Parses the command line and resolves. INVALID_ARGUMENT has one line for people.
  absl::Status Parse(int argc, const char* const* argv);
  // Parses and resolves. For --help, --version and kFactsFlag it prints the text and exits with 0;
  // an error goes to stderr and it exits with kExitUsage.
  void ParseOrExit(int argc, const char* const* argv);
  // Reads environment and file and sets every value. Warns on stderr of what was given without an
  // effect: another value of a flag that has one value, and variables BATON_... that no flag has,
  // these once for a process and those that it starts (known_variables.h). Only for a FlagSet on
  // an app that another object owns. REQUIRES: the app has parsed the command line, and no other
  // thread runs.
  absl::Status Resolve();

  // Sets a flag as --name=text on the command line would. INVALID_ARGUMENT for a bad value or an
  // unknown name. A FlagSet that is parsed or resolved must be so before.
  absl::Status Set(const std::string& name, const std::string& text);

  // Whether the flag was set by any source. REQUIRES, here and below: the flag was added.
  bool Given(const std::string& name) const;
  // The name of the flag for errors about its value: "--name", or with its source, such as "--name
  // (from BATON_NAME)".
  std::string Label(const std::string& name) const;
  // An error if both flags were set. It names both.
  absl::Status CheckNotBoth(const std::string& name, const std::string& other) const;
  // An error if `name` was set without `other`, to which it refers.
  absl::Status CheckNeeds(const std::string& name, const std::string& other) const;
  // Arguments that hand the same settings to another process: "--name=value" for every flag that
  // was set by any source, without --config.
  std::vector<std::string> GivenArguments() const;
  // The names of all flags without dashes, in the order in which they were added.
  std::vector<std::string> Names() const;
  // What there is to know of the command line that `program` begins.
  CommandFacts Facts(const std::string& program) const;

 private:
  struct Rep;

  void AddSwitch(const std::string& name, Value value, const std::string& help);
  // `take` gets the index of the choice.
  void AddChoice(const std::string& name, const std::string& default_text, const std::string& help,
                 const std::vector<std::string>& choices, std::function<void(size_t index)> take);

  std::unique_ptr<Rep> rep_;
};

// Prints "PROGRAM: MESSAGE" on stderr and returns kExitUsage, for main to return.
int ExitUsage(const std::string& program, const absl::Status& status);

}  // namespace baton
