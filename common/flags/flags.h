// Command-line flags that are also environment variables and keys of a TOML file.
//
// Every flag --some-name is BATON_SOME_NAME in the environment and the key `some-name` of the file
// that --config names. A flag beats the environment beats the file beats the default. Errors name
// the flag, where the value came from, the value and what would be right. Numbers of tokens and
// bytes take suffixes: k M G are powers of 1000 when lower case (or kB, MB, GB), of 1024 when upper
// case (or KiB, MiB, GiB). Durations: 250ms, 30s, 2m.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace CLI {
class App;
}

namespace baton {

// Exit code of a process whose flags, files or addresses are wrong.
inline constexpr int kExitUsage = 2;

// Single-threaded. The values that flags are bound to are borrowed and must outlive it.
class FlagSet {
 public:
  // A program of its own, with --config, --help and --version.
  FlagSet(const std::string& program, const std::string& description);
  // Flags of a (sub)command that somebody else parses; call Resolve() after that. Adds --config.
  // Borrows `app`.
  explicit FlagSet(CLI::App& app);
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // How the text of a flag becomes its value.
  struct Value {
    // Takes one text. The error says what is wrong with it, without the flag.
    std::function<absl::Status(const std::string& text)> set;
    std::string default_text = "";  // for --help
    // Of a flag with several values: drops those it has. Null: the flag has one.
    std::function<void()> clear = nullptr;
    bool split_at_commas = true;  // of a flag with several values
  };
  // `name` without dashes; "n,max-tokens" is -n as well as --max-tokens. So in all functions below,
  // which are kinds of values; their present content is the default.
  void Add(const std::string& name, const std::string& help, Value value);

  // `choices`: the only values, if any.
  void AddString(const std::string& name, std::string& value, const std::string& help,
                 std::vector<std::string> choices = {});
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
    AddChoice(name, present, help, std::move(choices),
              [&value, named](size_t index) { value = named[index].second; });
  }
  // Repeated, or separated by commas.
  void AddStrings(const std::string& name, std::vector<std::string>& values,
                  const std::string& help);
  // Repeated; each is taken as it is, commas too.
  void AddTexts(const std::string& name, std::vector<std::string>& values, const std::string& help);
  // host:port and so on, as NormalAddress makes it. May be empty where the default is.
  void AddAddress(const std::string& name, std::string& value, const std::string& help);
  void AddAddresses(const std::string& name, std::vector<std::string>& values,
                    const std::string& help);
  void AddInt(const std::string& name, int& value, int min, int max, const std::string& help);
  void AddInts(const std::string& name, std::vector<int>& values, int min, int max,
               const std::string& help);
  void AddDouble(const std::string& name, double& value, double min, double max,
                 const std::string& help);
  void AddBytes(const std::string& name, uint64_t& value, const std::string& help);
  void AddDuration(const std::string& name, absl::Duration& value, absl::Duration min,
                   absl::Duration max, const std::string& help);
  // --name, --name=false, --no-name.
  void AddBool(const std::string& name, bool& value, const std::string& help);
  void AddBool(const std::string& name, std::function<void(bool)> take, const std::string& help);

  // An argument without a name: no environment variable and no key of the file.
  void AddPositional(const std::string& name, std::optional<std::string>& value,
                     const std::string& help);
  // `FILE` may be given instead of `--model FILE`; both are an error. REQUIRES: `flag` was added
  // and has one value.
  void AllowPositional(const std::string& flag, const std::string& name, const std::string& help);

  // Parses and resolves. INVALID_ARGUMENT holds one line for people.
  absl::Status Parse(int argc, const char* const* argv);
  // As Parse. Prints help or version and exits 0; prints the error on stderr and exits with
  // kExitUsage.
  void ParseOrExit(int argc, const char* const* argv);
  // For a FlagSet on somebody else's app, once it is parsed: environment and file, then every
  // value.
  absl::Status Resolve();

  // As if --name=text stood on the command line, after Resolve. INVALID_ARGUMENT too for a name
  // that is no flag's.
  absl::Status Set(const std::string& name, const std::string& text);

  // Whether the flag was set anywhere. REQUIRES: it was added.
  bool Given(const std::string& name) const;
  // "--name", or "--name (from BATON_NAME)" where it was set there: for errors about its value.
  // REQUIRES: it was added.
  std::string Label(const std::string& name) const;
  // An error that names both where both were set. REQUIRES: they were added.
  absl::Status CheckNotBoth(const std::string& name, const std::string& other) const;
  // An error where `name` was set and `other`, which it is about, was not. REQUIRES: as above.
  absl::Status CheckNeeds(const std::string& name, const std::string& other) const;
  // "--name=value" for every flag that was set anywhere (not those left at their default, nor
  // --config): hands the same settings to another process.
  std::vector<std::string> GivenArguments() const;
  // Without dashes, in the order in which they were added.
  std::vector<std::string> Names() const;

 private:
  struct Rep;

  // `take` gets the index of the choice.
  void AddChoice(const std::string& name, const std::string& default_text, const std::string& help,
                 std::vector<std::string> choices, std::function<void(size_t index)> take);

  std::unique_ptr<Rep> rep_;
};

// Prints "PROGRAM: MESSAGE" on stderr and returns kExitUsage: `return ExitUsage("baton-router",
// status);` in main.
int ExitUsage(const std::string& program, const absl::Status& status);

}  // namespace baton
