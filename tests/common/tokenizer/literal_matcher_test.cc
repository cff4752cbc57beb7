#include "common/tokenizer/literal_matcher.h"

#include <algorithm>
#include <optional>
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

struct Found {
  std::optional<int32_t> id;
  size_t begin = 0;
  size_t size = 0;
  friend bool operator==(const Found&, const Found&) = default;
};

std::string RandomText(std::mt19937& random, size_t min_size, size_t max_size) {
  std::string text(min_size + random() % (max_size - min_size + 1), '\0');
  for (char& byte : text) byte = "ab\xff"[random() % 3 == 0 ? random() % 3 : 0];
  return text;
}

// The ids of the literals are their places in the list.
LiteralMatcher MatcherOf(const std::vector<Literal>& literals) {
  std::vector<LiteralMatcher::Literal> given;
  for (const Literal& literal : literals) {
    given.push_back({.text = literal.text,
                     .id = static_cast<int32_t>(given.size()),
                     .trusted_only = literal.trusted_only});
  }
  return LiteralMatcher(std::move(given));
}

// The longest literal at the first place where there is one, as the definition says.
Found FirstByDefinition(const std::vector<Literal>& literals, const std::string& text,
                        const std::vector<TextRange>& trusted, size_t position) {
  for (; position < text.size(); ++position) {
    Found longest;
    bool by_trust = false;
    for (size_t id = 0; id < literals.size(); ++id) {
      const Literal& literal = literals[id];
      if (text.compare(position, literal.text.size(), literal.text) != 0) continue;
      const size_t end = position + literal.text.size();
      const bool in_trusted = std::any_of(
          trusted.begin(), trusted.end(),
          [&](const TextRange& range) { return range.begin <= position && end <= range.end; });
      if (literal.trusted_only && !in_trusted) continue;
      const bool longer = literal.text.size() > longest.size;
      const bool equal = literal.text.size() == longest.size;
      if (!longer && !(equal && literal.trusted_only && !by_trust)) continue;
      longest = {static_cast<int32_t>(id), position, literal.text.size()};
      by_trust = literal.trusted_only;
    }
    if (longest.id.has_value()) return longest;
  }
  return {};
}

Found FirstFound(LiteralMatcher::Search& search, size_t position) {
  const auto match = search.Next(position);
  if (!match.has_value()) return {};
  return {match->id, match->begin, match->size};
}

std::vector<TextRange> RandomRanges(std::mt19937& random, size_t size) {
  std::vector<TextRange> ranges;
  for (size_t begin = random() % 4; begin < size;) {
    const size_t end = std::min(size, begin + 1 + random() % 8);
    ranges.push_back({begin, end});
    begin = end + 1 + random() % 4;
  }
  return ranges;
}

TEST(LiteralMatcher, FindsTheFirstLongestLiteralThatTrustAllows) {
  std::mt19937 random(1);
  for (int round = 0; round < 30'000; ++round) {
    std::vector<Literal> literals(random() % 7);
    for (Literal& literal : literals) literal = {RandomText(random, 1, 6), random() % 2 == 0};
    const LiteralMatcher matcher = MatcherOf(literals);
    const std::string text = RandomText(random, 0, 30);
    const std::vector<TextRange> trusted = RandomRanges(random, text.size());
    LiteralMatcher::Search search(matcher, text, trusted);
    // As a tokenizer goes on after each literal, and sometimes not so far.
    for (size_t position = 0; position <= text.size();) {
      const Found expected = FirstByDefinition(literals, text, trusted, position);
      ASSERT_EQ(FirstFound(search, position), expected) << text << " from " << position;
      if (!expected.id.has_value()) break;
      position = expected.begin + 1 + random() % expected.size;
    }
  }
}

// Texts of several blocks, with literals of the greatest length across their borders.
TEST(LiteralMatcher, FindsLiteralsWhereverTheyLieInALongText) {
  std::mt19937 random(2);
  const std::vector<Literal> literals = {
      {std::string(LiteralMatcher::kMaxLiteralBytes, 'x'), false},
      {std::string(1000, 'x') + "y", true},
      {"xy", true},
      {"yy", false}};
  const LiteralMatcher matcher = MatcherOf(literals);
  std::string text;
  while (text.size() < 300'000) {
    text += std::string(random() % 1500, 'x') + std::string(random() % 3, 'y');
    text += std::string(random() % 2000, '.');
  }
  const std::vector<TextRange> trusted = {{0, 65'000}, {65'500, 66'000}, {100'000, 290'000}};
  LiteralMatcher::Search search(matcher, text, trusted);
  size_t found = 0;
  for (size_t position = 0;; ++found) {
    const Found expected = FirstByDefinition(literals, text, trusted, position);
    ASSERT_EQ(FirstFound(search, position), expected) << "from " << position;
    if (!expected.id.has_value()) break;
    position = expected.begin + expected.size;
  }
  EXPECT_GT(found, 100u);
}

TEST(LiteralMatcher, OfEqualLiteralsTheFirstCounts) {
  const LiteralMatcher matcher = MatcherOf({{"<s>", true}, {"<s>", true}, {"<s>", false}});
  const TextRange whole = {0, 3}, part = {0, 2};
  EXPECT_EQ(LiteralMatcher::Search(matcher, "<s>x", {&whole, 1}).Next(0)->id, 0);
  EXPECT_EQ(LiteralMatcher::Search(matcher, "<s>x", {&part, 1}).Next(0)->id, 2);
  EXPECT_FALSE(LiteralMatcher::Search({}, "<s>x", {&whole, 1}).Next(0).has_value());
}

}  // namespace
}  // namespace baton
