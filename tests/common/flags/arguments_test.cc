#include "common/flags/arguments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "common/flags/flags.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A program with the commands `run`, `serve` and `bench engine`.
class Program {
 public:
  Program() {
    app_.require_subcommand(1);
    run_.AddString("temperature", text_, "Text");
    run_.AddBool("quick", quick_, "Quick");
    run_.AddPositional("prompt", prompt_, "Prompt");
    bench_.require_subcommand(1);
  }
  // The message of the error; empty without an error.
  std::string Parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "prog");
    const auto facts = [](const CLI::App& app) { return FactsOf(app, app.get_name()); };
    return std::string(
        ParseArguments(app_, static_cast<int>(arguments.size()), arguments.data(), facts)
            .message());
  }

 private:
  CLI::App app_{"A test.", "prog"};
  FlagSet run_{*app_.add_subcommand("run", "Run")};
  FlagSet serve_{*app_.add_subcommand("serve", "Serve")};
  CLI::App& bench_ = *app_.add_subcommand("bench", "Bench");
  FlagSet engine_{*bench_.add_subcommand("engine", "Engine")};
  std::string text_;
  bool quick_ = false;
  std::optional<std::string> prompt_;
};

TEST(DidYouMean, FindsTheNearestNameAndNoneThatIsFar) {
  const std::vector<std::string> names = {"run", "serve", "tokenize", "max-tokens"};
  EXPECT_EQ(DidYouMean("srve", names), "; did you mean 'serve'?");
  EXPECT_EQ(DidYouMean("tokenise", names), "; did you mean 'tokenize'?");
  EXPECT_EQ(DidYouMean("max_tokens", names), "; did you mean 'max-tokens'?");
  EXPECT_EQ(DidYouMean("max-tok", names), "; did you mean 'max-tokens'?");
  for (const char* far : {"help", "foo", "generate", "sing"}) {
    EXPECT_EQ(DidYouMean(far, names), "") << far;
  }
}

TEST(ParseArguments, AnUnknownCommandNamesItselfAndTheNearest) {
  EXPECT_THAT(Program().Parse({"srve"}),
              HasSubstr("unknown command 'srve'; did you mean 'serve'?"));
  EXPECT_THAT(Program().Parse({"bench", "engin"}),
              HasSubstr("unknown command 'engin'; did you mean 'engine'?"));
  EXPECT_THAT(Program().Parse({"xyzzy"}), HasSubstr("unknown command 'xyzzy'; see --help"));
  EXPECT_THAT(Program().Parse({}), HasSubstr("name a command: run, serve, bench"));
  EXPECT_THAT(Program().Parse({"bench"}), HasSubstr("name a command: engine"));
  EXPECT_EQ(Program().Parse({"bench", "engine"}), "");
}

TEST(ParseArguments, AnUnknownFlagNamesItselfAndTheNearest) {
  EXPECT_THAT(Program().Parse({"run", "--temprature", "0.5"}),
              HasSubstr("unknown flag '--temprature'; did you mean '--temperature'?"));
  EXPECT_THAT(Program().Parse({"run", "--temprature", "0.5", "why"}),
              HasSubstr("unknown flag '--temprature'; did you mean '--temperature'?"));
  EXPECT_THAT(Program().Parse({"run", "--temprature=0.5"}),
              HasSubstr("unknown flag '--temprature'; did you mean '--temperature'?"));
  EXPECT_THAT(Program().Parse({"run", "--no-quik"}), HasSubstr("did you mean '--no-quick'?"));
  EXPECT_THAT(Program().Parse({"serve", "--temperature", "0"}),
              HasSubstr("unknown flag '--temperature'; see --help"));
  EXPECT_THAT(Program().Parse({"--xyzzy"}), HasSubstr("unknown flag '--xyzzy'"));
}

TEST(ParseArguments, AnArgumentTooManyIsShownOnOneLine) {
  EXPECT_THAT(Program().Parse({"run", "why", "not"}), HasSubstr("unexpected argument 'not'"));
  EXPECT_THAT(Program().Parse({"serve", "two\nlines"}), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace baton
