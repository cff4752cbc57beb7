#include "common/flags/help_text.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/flags/flags.h"

namespace baton {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A program with flags of two groups, one of which plain help shows.
class HelpTextTest : public ::testing::Test {
 protected:
  HelpTextTest() {
    flags_.SetGroup(FlagGroup::kModel);
    flags_.AddString("m,model=FILE", model_, "GGUF file or Hugging Face folder");
    flags_.SetGroup(FlagGroup::kKvCache);
    flags_.AddInt(
        "blocks", blocks_, 0, 100,
        "Blocks of the KV cache, a sentence that is longer than what is left of the line");
    flags_.AddBool("cache", cache_, "Keep blocks for later prompts");
    flags_.AddBool("strict", strict_, "Refuse other types");
    flags_.AddStrings("a-name-that-is-too-long-for-it", names_, "Names");
    flags_.AddString("type", type_, "Type of the cache", {"f16", "int8"});
    flags_.AllowPositional("model", "FILE", "Same as --model FILE");
    flags_.AddExample("prog model.gguf", "Serve the file");
  }
  std::string Help(const HelpRequest& request) const {
    return HelpText(flags_.Facts("prog"), request, 60);
  }

  std::string model_, type_ = "f16";
  int blocks_ = 7;
  bool cache_ = true, strict_ = false;
  std::vector<std::string> names_;
  FlagSet flags_{"prog", "Serve a model."};
};

TEST_F(HelpTextTest, ShowsAllGroupsInTheirOrderWhereNoFlagIsFirst) {
  EXPECT_EQ(Help({}),
            "Serve a model.\n"
            "\n"
            "Usage: prog [FLAGS] [FILE]\n"
            "\n"
            "Arguments:\n"
            "  FILE  Same as --model FILE\n"
            "\n"
            "Model:\n"
            "  -m, --model FILE     GGUF file or Hugging Face folder\n"
            "\n"
            "KV cache:\n"
            "      --blocks N       Blocks of the KV cache, a sentence\n"
            "                       that is longer than what is left of\n"
            "                       the line (default: 7)\n"
            "      --[no-]cache     Keep blocks for later prompts\n"
            "                       (default: on)\n"
            "      --strict         Refuse other types\n"
            "      --a-name-that-is-too-long-for-it TEXT...\n"
            "                       Names\n"
            "      --type f16|int8  Type of the cache (default: f16)\n"
            "\n"
            "General:\n"
            "  -h, --help [GROUP]   Show help; with a group's name, all\n"
            "                       flags of that group\n"
            "      --help-all       Show help with all flags\n"
            "  -V, --version        Show the version\n"
            "      --config FILE    TOML file with flags as keys\n"
            "\n"
            "Examples:\n"
            "  prog model.gguf\n"
            "      Serve the file\n");
}

TEST_F(HelpTextTest, ShowsTheFirstFlagsAndTheNamesOfTheGroups) {
  flags_.ShowFirst({"blocks", "model"});
  const std::string help = Help({});
  EXPECT_THAT(help, HasSubstr("\nFlags:\n      --blocks N"));
  EXPECT_THAT(help, HasSubstr("-m, --model FILE"));
  EXPECT_THAT(help, Not(HasSubstr("--strict")));
  EXPECT_THAT(help, HasSubstr("--help GROUP:\n  model, kv-cache, general\n"));
}

TEST_F(HelpTextTest, OfAGroupShowsItsFlagsAlone) {
  flags_.ShowFirst({"model"});
  const std::string help = Help({.group = FlagGroup::kKvCache});
  EXPECT_THAT(help, StartsWith("Serve a model.\n\nKV cache:\n"));
  EXPECT_THAT(help, HasSubstr("--strict"));
  EXPECT_THAT(help, Not(HasSubstr("--model")));
}

TEST_F(HelpTextTest, OfAllFlagsShowsThemWhateverIsFirst) {
  const std::string all = Help({});
  flags_.ShowFirst({"model"});
  EXPECT_EQ(Help({.all = true}), all);
}

TEST_F(HelpTextTest, HasNoLineThatIsWiderThanAskedFor) {
  for (const int columns : {60, 77, 100}) {
    const std::string help = HelpText(flags_.Facts("prog"), {}, columns);
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(help, '\n'))) {
      EXPECT_LE(line.size(), static_cast<size_t>(columns)) << line;
      EXPECT_THAT(line, Not(EndsWith(" ")));
    }
  }
}

TEST(HelpColumns, AreThoseOfTheTerminalWithinLimits) {
  EXPECT_EQ(HelpColumns(0), 80);
  EXPECT_EQ(HelpColumns(20), 60);
  EXPECT_EQ(HelpColumns(90), 90);
  EXPECT_EQ(HelpColumns(300), 100);
}

TEST(FlagGroups, AreFoundByTheirNames) {
  EXPECT_EQ(FlagGroupName(FlagGroup::kPrefillDecode), "prefill-decode");
  for (const FlagGroup group : kFlagGroups) EXPECT_EQ(FindFlagGroup(FlagGroupName(group)), group);
  EXPECT_EQ(FindFlagGroup("kv"), std::nullopt);
}

}  // namespace
}  // namespace baton
