#include "common/jinja/text.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

Text Mixed() {
  Text text("ab", true);
  text.Append("cde", false);
  text.Append("f", true);
  return text;
}

TEST(Text, NeighboursOfOneOriginAreOneRun) {
  Text text;
  for (const bool trusted : {true, true, false, false, true}) text.Append("x", trusted);
  text.Append("", false);
  EXPECT_EQ(Shown(text), "xx<xx>x");
  ASSERT_EQ(text.runs().size(), 3u);
  EXPECT_EQ(text.runs().back().end, text.size());
}

TEST(Text, EverySliceHasTheBytesAndTheOriginsOfItsPlace) {
  const Text text = Mixed();
  for (size_t begin = 0; begin <= text.size(); ++begin) {
    for (size_t end = begin; end <= text.size(); ++end) {
      Text expected;
      for (size_t i = begin; i < end; ++i) {
        expected.Append(text.bytes().substr(i, 1), text.TrustedBetween(i, i + 1));
      }
      EXPECT_EQ(Shown(text.Slice(begin, end)), Shown(expected)) << begin << " to " << end;
    }
  }
}

TEST(Text, ARangeIsTrustedOnlyIfEachOfItsBytesIs) {
  const Text text = Mixed();
  EXPECT_TRUE(text.TrustedBetween(0, 2));
  EXPECT_FALSE(text.TrustedBetween(1, 3));
  EXPECT_FALSE(text.TrustedBetween(2, 5));
  EXPECT_FALSE(text.TrustedBetween(0, 6));
  EXPECT_TRUE(text.TrustedBetween(5, 6));
  EXPECT_TRUE(text.TrustedBetween(3, 3));
  EXPECT_FALSE(text.trusted());
  EXPECT_TRUE(Text().trusted());
}

TEST(Text, DistrustLeavesNoTrustedByte) {
  Text text = Mixed();
  text.Distrust();
  EXPECT_EQ(Shown(text), "<abcdef>");
  Text empty;
  empty.Distrust();
  EXPECT_TRUE(empty.runs().empty());
}

TEST(Characters, AreWholeWhereTheyAreValidAndSingleBytesElsewhere) {
  const std::string bytes =
      "a\u00e9\u4e16\U0001F600\xff\xe4\xb8"
      "b\xc3";
  const std::vector<size_t> offsets = {0, 1, 3, 6, 10, 11, 12, 13, 14, 15};
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    EXPECT_EQ(CharacterSize(bytes, offsets[i]), offsets[i + 1] - offsets[i]);
    EXPECT_EQ(LastCharacterSize(bytes, 0, offsets[i + 1]), offsets[i + 1] - offsets[i]);
  }
  EXPECT_EQ(CharacterCount(bytes), 9u);
  EXPECT_EQ(CharacterCount(""), 0u);
}

// The characters for which Python's str.isspace() is true.
TEST(Space, IsThatOfPython) {
  for (const absl::string_view space :
       {"\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",
        "\x1e",   "\x1f",   " ",      "\u0085", "\u00a0", "\u1680", "\u2000",
        "\u2005", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}) {
    EXPECT_EQ(SpaceSize(space, 0), space.size()) << space;
  }
  for (const absl::string_view other :
       {"a", "\x08", "\x0e", "\x1b", "!", "\u1fff", "\u200b", "\u180e", "\ufeff", "\x85", "\xa0"}) {
    EXPECT_EQ(SpaceSize(other, 0), 0u) << other;
  }
}

TEST(Space, IsSkippedFromBothEndsWithinTheRangeOnly) {
  const std::string bytes = " \u3000a \u4e16\u2003\n";
  EXPECT_EQ(SkipSpace(bytes, 0, bytes.size()), 4u);
  EXPECT_EQ(SkipSpaceBackwards(bytes, 0, bytes.size()), 9u);
  EXPECT_EQ(SkipSpace(bytes, 0, 1), 1u);
  EXPECT_EQ(SkipSpaceBackwards(bytes, 12, 13), 12u);
  EXPECT_EQ(SkipSpace("  ", 0, 2), 2u);
  EXPECT_EQ(SkipSpaceBackwards("  ", 0, 2), 0u);
}

}  // namespace
}  // namespace baton::jinja
