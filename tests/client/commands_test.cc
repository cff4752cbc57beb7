// Tests that the environment and a TOML file reach every flag of every program.
#include "client/commands.h"

#include <cstdlib>
#include <fstream>
#include <list>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "common/flags/arguments.h"
#include "common/flags/foreign_words.h"
#include "common/worker/worker_flags.h"
#include "router/router_flags.h"

namespace baton {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

// The flags of the servers, as their mains add them, and of all commands of `baton`.
struct Programs {
  struct Program {
    std::string name;
    CLI::App& app;
    FlagSet& flags;
  };
  Programs() {
    router.AddTo(router_flags);
    AddWorkerFlags(worker_flags, worker);
    all.push_back({"baton-router", router_app, router_flags});
    all.push_back({"worker", worker_app, worker_flags});
    for (Subcommand& command : commands) {
      all.push_back({command.program, command.app, command.flags});
    }
  }

  // Parses a command line of `baton`.
  absl::Status Parse(const std::vector<const char*>& arguments) {
    return ParseArguments(
        baton_app, static_cast<int>(arguments.size()), arguments.data(),
        [this](const CLI::App& asked) { return FactsOfCommand(asked, commands); });
  }

  CLI::App router_app, worker_app, baton_app;
  FlagSet router_flags{router_app}, worker_flags{worker_app};
  RouterFlags router;
  WorkerFlags worker;
  std::list<Subcommand> commands = AddCommands(baton_app);
  std::vector<Program> all;
};

// The names of all flags without dashes, except help, config, arguments without a name and flags of
// other programs, which are in no group.
std::vector<std::string> LongNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& forms = option->get_lnames();
    if (forms.empty() || forms[0] == "help" || forms[0] == "help-all" || forms[0] == "config")
      continue;
    if (option->get_group().empty()) continue;
    names.push_back(forms[0]);
  }
  return names;
}

class Variable {
 public:
  Variable(const std::string& flag, const std::string& value)
      : name_(absl::StrCat("BATON_",
                           absl::StrReplaceAll(absl::AsciiStrToUpper(flag), {{"-", "_"}}))) {
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_.c_str()); }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// A value that the flag accepts from the environment, found by means of the errors.
std::string GoodValue(const Programs::Program& program, const std::string& name) {
  for (const char* value : {"1", "64", "65536", "1s", "1m", "48h", "host:1"}) {
    const Variable variable(name, value);
    const absl::Status status = program.flags.Resolve();
    if (status.ok()) return value;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("--", name, " (from ", variable.name(), ")")));
    const std::vector<std::string> choices =
        absl::StrSplit(std::string(status.message()), "is not one of ");
    if (choices.size() == 2) return choices[1].substr(0, choices[1].find(','));
  }
  return "";
}

TEST(EveryFlag, IsReachedByTheEnvironment) {
  const Programs programs;
  size_t checked = 0;
  for (const Programs::Program& program : programs.all) {
    for (const std::string& name : LongNames(program.app)) {
      const std::string good = GoodValue(program, name);
      const Variable variable(name, good);
      EXPECT_TRUE(program.flags.Resolve().ok()) << program.name << " --" << name;
      EXPECT_THAT(program.flags.GivenArguments(), Contains(absl::StrCat("--", name, "=", good)))
          << program.name;
      ++checked;
    }
  }
  EXPECT_GT(checked, 100u);
}

TEST(EveryFlag, IsReachedByTheFile) {
  const Programs tried, programs;
  for (size_t i = 0; i < programs.all.size(); ++i) {
    const std::string path = testing::TempDir() + "/commands_test.toml";
    std::ofstream file(path);
    std::vector<std::string> given;
    for (const std::string& name : LongNames(programs.all[i].app)) {
      const std::string good = GoodValue(tried.all[i], name);
      file << name << " = '" << good << "'\n";
      given.push_back(absl::StrCat("--", name, "=", good));
    }
    file.close();
    const Variable config("config", path);
    const absl::Status status = programs.all[i].flags.Resolve();
    EXPECT_TRUE(status.ok()) << programs.all[i].name << ": " << status;
    EXPECT_THAT(programs.all[i].flags.GivenArguments(), UnorderedElementsAreArray(given))
        << programs.all[i].name;
  }
}

TEST(EveryFlag, OfOneCommandIsNothingToTheOthersInTheEnvironment) {
  const Variable temperature("temperature", "warm");
  Programs programs;
  for (Subcommand& command : programs.commands) {
    const absl::Status status = command.flags.Resolve();
    if (command.program == "baton run") {
      EXPECT_EQ(std::string(status.message()),
                "--temperature (from BATON_TEMPERATURE): 'warm' is not a number from 0 to 100");
    } else {
      EXPECT_TRUE(status.ok()) << command.program << ": " << status;
    }
  }
}

// The words of a command line that has no quotes but "...".
std::vector<std::string> Words(const std::string& line) {
  std::vector<std::string> words = {""};
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

TEST(EveryCommand, HasExamplesThatItTakes) {
  for (const Subcommand& command : Programs().commands) {
    const std::vector<Example> examples = command.flags.Facts(command.program).examples;
    EXPECT_GE(examples.size(), 2u) << command.program;
    for (const Example& example : examples) {
      EXPECT_THAT(example.command, StartsWith(command.program));
      // What follows is the shell's.
      const std::string line = example.command.substr(0, example.command.find_first_of("|<>"));
      const std::vector<std::string> words = Words(std::string(absl::StripAsciiWhitespace(line)));
      std::vector<const char*> arguments;
      for (const std::string& word : words) arguments.push_back(word.c_str());
      Programs programs;
      EXPECT_EQ(programs.Parse(arguments), absl::OkStatus()) << example.command;
      for (Subcommand& parsed : programs.commands) {
        if (!parsed.app.parsed()) continue;
        EXPECT_EQ(parsed.flags.Resolve(), absl::OkStatus()) << example.command;
      }
    }
  }
}

// The own flags of the command with their dashes, as its help has them.
std::vector<std::string> DashedNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

TEST(ForeignWords, EachSentenceIsThatOfACommandWhichHasTheFlagsThatItNames) {
  const Programs programs;
  for (const ForeignFlag& foreign : ForeignFlags()) {
    bool is_said = false;
    for (const Programs::Program& program : programs.all) {
      const std::vector<std::string> names = DashedNames(program.app);
      if (program.app.get_option_no_throw(std::string(foreign.word)) != nullptr) continue;
      is_said = is_said || AdviceOnFlag(foreign.word, names) == foreign.advice;
    }
    EXPECT_TRUE(is_said) << foreign.word << ": " << foreign.advice;
  }
}

// What `baton` answers to a command line; empty if it has no objection.
std::string Answer(std::vector<const char*> arguments) {
  Programs programs;
  arguments.insert(arguments.begin(), "baton");
  return std::string(programs.Parse(arguments).message());
}

TEST(ForeignWords, OfFlagsAreAnsweredWithASentence) {
  EXPECT_THAT(Answer({"serve", "m.gguf", "-ngl", "99"}), StartsWith("-ngl: a worker computes all"));
  EXPECT_THAT(Answer({"run", "-ngl", "99", "hi"}), StartsWith("-ngl: the server decides"));
  EXPECT_THAT(Answer({"serve", "--tensor-parallel-size=2", "m.gguf"}),
              StartsWith("--tensor-parallel-size: Baton has no tensor parallelism"));
  EXPECT_THAT(Answer({"run", "--port", "8080", "hi"}), StartsWith("--port: the server's address"));
  EXPECT_THAT(Answer({"status", "--host", "a"}), StartsWith("--host: the router's address"));
  EXPECT_THAT(Answer({"serve", "m.gguf", "-fa", "on"}), StartsWith("-fa: is not needed"));
  EXPECT_THAT(Answer({"run", "--api-key", "sk-1", "hi"}), HasSubstr("--api-key-file FILE"));
  EXPECT_THAT(Answer({"serve", "--parallel", "4"}), HasSubstr("--max-num-seqs N"));
  EXPECT_EQ(Answer({"run", "--system", "-ngl", "hi"}), "") << "the value of a flag";
  EXPECT_EQ(Answer({"run", "--", "-ngl"}), "") << "a prompt";
}

TEST(ForeignWords, OfCommandsAreTakenOrAnswered) {
  EXPECT_EQ(Answer({"list", "models"}), "");
  EXPECT_EQ(Answer({"ps"}), "");
  EXPECT_EQ(Answer({"show", "m.gguf"}), "");
  EXPECT_THAT(Answer({"pull", "llama3"}),
              StartsWith("unknown command 'pull': Baton fetches no models"));
  for (const char* command : {"rm", "push", "create", "stop"}) {
    EXPECT_THAT(Answer({command, "llama3"}),
                StartsWith(absl::StrCat("unknown command '", command, "': ")));
  }
}

TEST(ForeignWords, ThatMeanTheSameAreTakenOnTheCommandLine) {
  Programs programs;
  const std::vector<const char*> arguments = {
      "baton", "serve", "-m", "m.gguf", "-c",     "4096", "--port",         "9000",
      "-t",    "2",     "-a", "small",  "--host", "::1",  "--api-key-file", "k.txt"};
  ASSERT_TRUE(programs.Parse(arguments).ok());
  for (Subcommand& command : programs.commands) {
    if (command.program != "baton serve") continue;
    ASSERT_TRUE(command.flags.Resolve().ok());
    EXPECT_THAT(
        command.flags.GivenArguments(),
        UnorderedElementsAre("--model=m.gguf", "--max-model-len=4096", "--http-listen=[::1]:9000",
                             "--threads=2", "--served-model-name=small", "--serve-key-file=k.txt"));
  }
}

TEST(ForeignWords, AreNeitherVariablesNorKeysOfAFile) {
  for (const char* word : {"host", "port", "ctx-size", "api-key-file", "alias", "m", "c"}) {
    const Variable variable(word, "1");
    Programs programs;
    for (Subcommand& command : programs.commands) {
      if (command.program != "baton serve") continue;
      EXPECT_TRUE(command.flags.Resolve().ok()) << word;
      EXPECT_TRUE(command.flags.GivenArguments().empty()) << word;
    }
  }
  const std::string path = testing::TempDir() + "/foreign_words.toml";
  for (const char* word : {"host", "port", "ctx-size", "api-key-file", "alias", "m", "c"}) {
    std::ofstream(path) << word << " = '1'\n";
    const Variable config("config", path);
    Programs programs;
    for (Subcommand& command : programs.commands) {
      if (command.program != "baton serve") continue;
      EXPECT_THAT(std::string(command.flags.Resolve().message()),
                  HasSubstr(absl::StrCat("unknown key '", word, "'")));
    }
  }
}

}  // namespace
}  // namespace baton
