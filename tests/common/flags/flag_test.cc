#include "common/flags/flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kVariable[] = " (from BATON_COUNT)";

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST(Flag, HasItsDefaultAndNothingGivenWithoutTexts) {
  int value = 7;
  Flag flag("count", IntValue(value, 0, 10));
  EXPECT_TRUE(flag.Take({}).ok());
  EXPECT_EQ(value, 7);
  EXPECT_THAT(flag.given(), IsEmpty());
  EXPECT_EQ(flag.Label(), "--count");
}

TEST(Flag, TakesTheLastOfSeveralArguments) {
  int value = 7;
  Flag flag("count", IntValue(value, 0, 10));
  EXPECT_TRUE(flag.Take({.values = {"1", "2"}}).ok());
  EXPECT_EQ(value, 2);
  EXPECT_THAT(flag.given(), ElementsAre("2"));
  EXPECT_EQ(MessageOf(flag.Take({.values = {"1", "2"}, .where = " (from x.toml)"})),
            "--count (from x.toml) takes one value, not an array");
}

TEST(Flag, NamesItsSourceAndTheWrongText) {
  int value = 7;
  Flag flag("count", IntValue(value, 0, 10));
  EXPECT_EQ(MessageOf(flag.Take({.values = {"11"}})),
            "--count: '11' is not a whole number from 0 to 10");
  EXPECT_EQ(MessageOf(flag.Take({.values = {"x\n"}, .where = kVariable})),
            "--count (from BATON_COUNT): 'x\\u000a' is not a whole number from 0 to 10");
  EXPECT_THAT(flag.given(), IsEmpty()) << "nothing was taken";
  EXPECT_EQ(flag.Label(), "--count");
  EXPECT_TRUE(flag.Take({.values = {"3"}, .where = kVariable}).ok());
  EXPECT_EQ(flag.Label(), "--count (from BATON_COUNT)");
}

TEST(Flag, AListReplacesWhatItHadAndIsCutAtCommasUnlessTheyAreItsTexts) {
  std::vector<std::string> strings = {"default"};
  Flag list("names", StringsValue(strings));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(list.Take({.values = {"a, b", "c"}}).ok());
  EXPECT_THAT(strings, ElementsAre("a", "b", "c"));
  EXPECT_THAT(list.given(), ElementsAre("a", "b", "c"));
  Flag texts("stop", TextsValue(strings));
  EXPECT_TRUE(texts.Take({.values = {"a, b", "c"}, .where = " (from x.toml)"}).ok());
  EXPECT_THAT(strings, ElementsAre("a, b", "c"));
}

}  // namespace
}  // namespace baton
