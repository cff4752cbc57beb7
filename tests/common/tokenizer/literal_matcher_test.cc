#include "common/tokenizer/literal_matcher.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

struct Literal {
  std::string text;
  bool trusted_only;
};

std::string RandomText(std::mt19937& random, size_t min_size, size_t max_size) {
  std::string text(min_size + random() % (max_size - min_size + 1), '\0');
  for (char& byte : text) byte = "ab"[random() % 2];
  return text;
}

TEST(LiteralMatcher, FindsTheLongestThatTrustAllows) {
  std::mt19937 random(1);
  for (int round = 0; round < 50'000; ++round) {
    std::vector<Literal> literals(random() % 6);
    LiteralMatcher matcher;
    for (size_t id = 0; id < literals.size(); ++id) {
      literals[id] = {RandomText(random, 1, 5), random() % 2 == 0};
      matcher.Add(literals[id].text, static_cast<int32_t>(id), literals[id].trusted_only);
    }
    const std::string text = RandomText(random, 0, 8);
    const size_t trusted_size = random() % 9;
    size_t expected_size = 0;
    for (const Literal& literal : literals) {
      if (text.compare(0, literal.text.size(), literal.text) != 0) continue;
      if (literal.trusted_only && literal.text.size() > trusted_size) continue;
      expected_size = std::max(expected_size, literal.text.size());
    }
    const auto match = matcher.Longest(text, trusted_size);
    ASSERT_EQ(match.has_value() ? match->size : 0, expected_size);
    if (!match.has_value()) continue;
    const Literal& found = literals[static_cast<size_t>(match->id)];
    ASSERT_EQ(found.text, text.substr(0, match->size));
    ASSERT_TRUE(!found.trusted_only || match->size <= trusted_size);
  }
}

TEST(LiteralMatcher, OfEqualLiteralsTheFirstCounts) {
  LiteralMatcher matcher;
  matcher.Add("<s>", 7, true);
  matcher.Add("<s>", 8, true);
  matcher.Add("<s>", 9, false);
  EXPECT_EQ(matcher.Longest("<s>x", 3)->id, 7);
  EXPECT_EQ(matcher.Longest("<s>x", 2)->id, 9);
}

}  // namespace
}  // namespace baton
