#include "common/tokenizer/unicode_text.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(UnicodeText, ComposesAsNormalFormCSays) {
  EXPECT_EQ(NormalFormC("plain"), "plain");
  EXPECT_EQ(NormalFormC("e\u0301"), "é");
  EXPECT_EQ(NormalFormC("a\u0301\u0323"), "\u1EA1\u0301") << "marks are ordered by their class";
  EXPECT_EQ(NormalFormC("\u1112\u1161\u11AB"), "한");
  EXPECT_EQ(NormalFormC("\u212A\u0958"), "K\u0915\u093C") << "singletons and exclusions";
  EXPECT_EQ(NormalFormC("ﬁ²"), "ﬁ²") << "nothing of compatibility";
}

TEST(UnicodeText, BytesThatAreNotUtf8StayAndPartTheText) {
  EXPECT_EQ(NormalFormC("\xFF"), "\xFF");
  EXPECT_EQ(NormalFormC("e\xFF\u0301e\u0301\xC3"), "e\xFF\u0301é\xC3");
}

TEST(UnicodeText, AMegabyteOfMarksInTheWrongOrderIsNormalised) {
  std::string text = "a";
  while (text.size() < 1'000'000) text += "\u0301\u0323";
  const std::string normal = NormalFormC(text);
  EXPECT_EQ(normal.substr(0, 5), "\u1EA1\u0323");
  EXPECT_EQ(NormalFormC(normal), normal);
}

TEST(UnicodeText, KnowsSpacesAndWords) {
  EXPECT_EQ(LeadingSpace("\u3000\t\n a"), 6u);
  EXPECT_EQ(LeadingSpace("\u180E"), 0u);
  EXPECT_EQ(LeadingSpace(""), 0u);
  EXPECT_EQ(LeadingSpace("\xFF "), 0u);
  EXPECT_EQ(TrailingSpace("a\u3000 "), 4u);
  EXPECT_EQ(TrailingSpace("  "), 2u);
  EXPECT_EQ(TrailingSpace(" \x80"), 0u);
  EXPECT_TRUE(BeginsWithWord("é "));
  EXPECT_TRUE(BeginsWithWord("_"));
  EXPECT_TRUE(BeginsWithWord("\u200D"));
  EXPECT_FALSE(BeginsWithWord("-a"));
  EXPECT_FALSE(BeginsWithWord(""));
  EXPECT_TRUE(EndsWithWord("-9"));
  EXPECT_FALSE(EndsWithWord("a🙂"));
}

}  // namespace
}  // namespace baton
