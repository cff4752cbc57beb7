#include "router/front/grammar_cache.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

SharedGrammar GrammarOf(size_t bytes) { return std::make_shared<const std::string>(bytes, 'x'); }

// A cache that holds three grammars of 1,000 bytes.
constexpr size_t kRoomForThree = 3 * (1000 + 256 + 1);

TEST(GrammarKeys, DifferWithTheTenantEveryPartOfTheSpecAndTheVocabulary) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kRegex;
  spec.text = "a";
  const std::string key = GrammarKey("t", spec, "digest");
  EXPECT_EQ(key, GrammarKey("t", spec, "digest"));
  EXPECT_NE(key, GrammarKey("u", spec, "digest"));
  EXPECT_NE(key, GrammarKey("t", spec, "other digest"));
  spec.text = "b";
  EXPECT_NE(key, GrammarKey("t", spec, "digest"));
  spec.text = "a";
  spec.kind = GrammarKind::kGrammar;
  EXPECT_NE(key, GrammarKey("t", spec, "digest"));
  // Where one string ends and the next begins counts.
  GrammarSpec choices;
  choices.kind = GrammarKind::kChoice;
  choices.choices = {"ab", "c"};
  const std::string two = GrammarKey("t", choices, "digest");
  choices.choices = {"a", "bc"};
  EXPECT_NE(two, GrammarKey("t", choices, "digest"));
}

TEST(GrammarCaches, FindGrammarsAndErrorsThatWereInserted) {
  GrammarCache cache(10'000);
  EXPECT_FALSE(cache.Find("k").has_value());
  const SharedGrammar grammar = GrammarOf(10);
  cache.Insert("k", grammar);
  cache.Insert("bad", absl::InvalidArgumentError("no"));
  EXPECT_EQ(**cache.Find("k"), grammar);
  EXPECT_EQ(cache.Find("bad")->status(), absl::InvalidArgumentError("no"));
}

TEST(GrammarCaches, DropThoseThatWereUsedLongestAgoWhenTheirBytesAreUp) {
  GrammarCache cache(kRoomForThree);
  for (const char* key : {"a", "b", "c"}) cache.Insert(key, GrammarOf(1000));
  EXPECT_TRUE(cache.Find("a").has_value());  // now b was used longest ago
  cache.Insert("d", GrammarOf(1000));
  EXPECT_FALSE(cache.Find("b").has_value());
  EXPECT_TRUE(cache.Find("a").has_value());
  EXPECT_TRUE(cache.Find("c").has_value());
  EXPECT_TRUE(cache.Find("d").has_value());
  // A large one takes the place of several.
  cache.Insert("e", GrammarOf(2000));
  EXPECT_FALSE(cache.Find("a").has_value());
  EXPECT_FALSE(cache.Find("c").has_value());
  EXPECT_TRUE(cache.Find("d").has_value());
  EXPECT_TRUE(cache.Find("e").has_value());
}

TEST(GrammarCaches, DoNotKeepWhatIsLargerThanAllOfThem) {
  GrammarCache cache(kRoomForThree);
  cache.Insert("a", GrammarOf(1000));
  cache.Insert("b", GrammarOf(kRoomForThree));
  cache.Insert("c", absl::InvalidArgumentError(std::string(kRoomForThree, 'x')));
  EXPECT_FALSE(cache.Find("b").has_value());
  EXPECT_FALSE(cache.Find("c").has_value());
  EXPECT_TRUE(cache.Find("a").has_value());
}

}  // namespace
}  // namespace baton
