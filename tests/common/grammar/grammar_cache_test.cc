#include "common/grammar/grammar_cache.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(GrammarKeys, DifferWithEveryPartOfTheSpecAndWithTheVocabulary) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kRegex;
  spec.text = "a";
  const std::string key = GrammarKey(spec, "digest");
  EXPECT_EQ(key, GrammarKey(spec, "digest"));
  EXPECT_NE(key, GrammarKey(spec, "other digest"));
  spec.text = "b";
  EXPECT_NE(key, GrammarKey(spec, "digest"));
  spec.text = "a";
  spec.kind = GrammarKind::kGrammar;
  EXPECT_NE(key, GrammarKey(spec, "digest"));
  // Where one string ends and the next begins counts.
  GrammarSpec choices;
  choices.kind = GrammarKind::kChoice;
  choices.choices = {"ab", "c"};
  const std::string two = GrammarKey(choices, "digest");
  choices.choices = {"a", "bc"};
  EXPECT_NE(two, GrammarKey(choices, "digest"));
}

TEST(GrammarCaches, FindWhatWasInserted) {
  GrammarCache cache(100);
  EXPECT_EQ(cache.Find("k"), std::nullopt);
  cache.Insert("k", "grammar");
  EXPECT_EQ(cache.Find("k"), "grammar");
  cache.Insert("k", "grammar");  // twice is as once
  EXPECT_EQ(cache.Find("k"), "grammar");
}

TEST(GrammarCaches, DropThoseThatWereUsedLongestAgoWhenTheirBytesAreUp) {
  GrammarCache cache(30);  // three of ten bytes
  for (const char* key : {"a", "b", "c"}) cache.Insert(key, "123456789");
  EXPECT_TRUE(cache.Find("a").has_value());  // now b was used longest ago
  cache.Insert("d", "123456789");
  EXPECT_FALSE(cache.Find("b").has_value());
  EXPECT_TRUE(cache.Find("a").has_value());
  EXPECT_TRUE(cache.Find("c").has_value());
  EXPECT_TRUE(cache.Find("d").has_value());
  // A large one takes the place of several.
  cache.Insert("e", std::string(19, 'x'));
  EXPECT_FALSE(cache.Find("a").has_value());
  EXPECT_FALSE(cache.Find("c").has_value());
  EXPECT_TRUE(cache.Find("d").has_value());
  EXPECT_TRUE(cache.Find("e").has_value());
}

TEST(GrammarCaches, DoNotKeepWhatIsLargerThanAllOfThem) {
  GrammarCache cache(30);
  cache.Insert("a", "123456789");
  cache.Insert("b", std::string(30, 'x'));
  EXPECT_FALSE(cache.Find("b").has_value());
  EXPECT_TRUE(cache.Find("a").has_value());
  cache.Insert("c", std::string(29, 'x'));
  EXPECT_TRUE(cache.Find("c").has_value());
}

}  // namespace
}  // namespace baton
