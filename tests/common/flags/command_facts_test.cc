#include "common/flags/command_facts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "common/base/version.h"
#include "common/flags/flags.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The facts of a program with a flag of each kind.
class CommandFactsTest : public ::testing::Test {
 protected:
  CommandFactsTest() {
    flags_.SetGroup(FlagGroup::kRequest);
    flags_.AddInt("n,max-tokens", max_tokens_, 1, 100, "Most tokens");
    flags_.AddString("schema=FILE", schema_, "Its schema");
    flags_.SetGroup(FlagGroup::kOutput);
    flags_.AddString("shape", shape_, "its shape", {"round", "flat"});
    flags_.AddStrings("peer", peers_, "peers");
    flags_.AddBool("raw", raw_, "No template");
    flags_.AddBool("colour", colour_, "Colours");
    flags_.AddBytes("file-bytes", file_bytes_, "Its length");
    flags_.ShowFirst({"raw", "max-tokens"});
    flags_.AddExample("prog --raw", "Use no template");
    flags_.AddPositionals("file", files_, "files to read");
    facts_ = flags_.Facts("prog");
  }

  const FlagFacts& Find(const std::string& name) const {
    const auto found = std::find_if(facts_.flags.begin(), facts_.flags.end(),
                                    [&](const FlagFacts& flag) { return flag.name == name; });
    EXPECT_NE(found, facts_.flags.end()) << name;
    return *found;
  }

  int max_tokens_ = 7;
  std::string shape_ = "flat", schema_;
  std::vector<std::string> peers_, files_;
  bool raw_ = false, colour_ = true;
  uint64_t file_bytes_ = uint64_t{256} << 20;
  FlagSet flags_{"prog", "Does this and that."};
  CommandFacts facts_;
};

TEST_F(CommandFactsTest, TellOfEveryKindOfFlag) {
  EXPECT_EQ(facts_.description, "Does this and that.");
  const FlagFacts& count = Find("max-tokens");
  EXPECT_EQ(count.short_name, "n");
  EXPECT_EQ(count.default_text, "7");
  EXPECT_TRUE(count.takes_value);
  EXPECT_FALSE(count.repeated);
  EXPECT_THAT(count.choices, IsEmpty());
  EXPECT_THAT(Find("shape").choices, ElementsAre("round", "flat"));
  EXPECT_EQ(Find("shape").default_text, "flat");
  EXPECT_TRUE(Find("peer").repeated);
  EXPECT_FALSE(Find("raw").takes_value);
  EXPECT_TRUE(Find("raw").negatable);
}

TEST_F(CommandFactsTest, HaveThePlaceholderOfTheFlagOrElseOfItsKind) {
  EXPECT_EQ(Find("schema").placeholder, "FILE");
  EXPECT_EQ(Find("max-tokens").placeholder, "N");
  EXPECT_EQ(Find("shape").placeholder, "round|flat");
  EXPECT_EQ(Find("file-bytes").placeholder, "SIZE");
  EXPECT_EQ(Find("config").placeholder, "FILE");
  EXPECT_EQ(Find("raw").placeholder, "");
}

TEST_F(CommandFactsTest, HaveDefaultsAsPeopleWriteThem) {
  EXPECT_EQ(Find("file-bytes").default_text, "256 MiB");
  EXPECT_EQ(Find("colour").default_text, "on");
  EXPECT_EQ(Find("raw").default_text, "");
}

TEST_F(CommandFactsTest, HaveGroupsFirstFlagsAndExamples) {
  EXPECT_EQ(Find("max-tokens").group, FlagGroup::kRequest);
  EXPECT_EQ(Find("raw").group, FlagGroup::kOutput);
  EXPECT_EQ(Find("help").group, FlagGroup::kGeneral);
  EXPECT_THAT(facts_.first, ElementsAre("raw", "max-tokens"));
  ASSERT_EQ(facts_.examples.size(), 1u);
  EXPECT_EQ(facts_.examples[0].command, "prog --raw");
}

TEST_F(CommandFactsTest, TellOfTheFlagsThatEveryProgramHas) {
  EXPECT_FALSE(Find("help").takes_value);
  EXPECT_FALSE(Find("help").negatable);
  EXPECT_FALSE(Find("version").takes_value);
  EXPECT_TRUE(Find("config").takes_value);
}

TEST_F(CommandFactsTest, TellOfArgumentsWithoutAName) {
  ASSERT_EQ(facts_.arguments.size(), 1u);
  EXPECT_EQ(facts_.arguments[0].name, "file");
  EXPECT_EQ(facts_.arguments[0].help, "files to read");
  EXPECT_TRUE(facts_.arguments[0].repeated);
}

TEST_F(CommandFactsTest, AreAnArrayInJson) {
  const auto json = nlohmann::json::parse(FactsJson({facts_}));
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["program"], "prog");
  EXPECT_EQ(json[0]["version"], Version());
  EXPECT_EQ(json[0]["flags"].size(), facts_.flags.size());
  EXPECT_EQ(json[0]["arguments"][0]["name"], "file");
}

TEST(AsksForFacts, IsTheOnlyArgument) {
  const char* const asks[] = {"prog", kFactsFlag};
  const char* const does_not[] = {"prog", kFactsFlag, "more"};
  EXPECT_TRUE(AsksForFacts(2, asks));
  EXPECT_FALSE(AsksForFacts(3, does_not));
  EXPECT_FALSE(AsksForFacts(1, asks));
}

}  // namespace
}  // namespace baton
