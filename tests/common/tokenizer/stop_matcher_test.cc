#include "common/tokenizer/stop_matcher.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

struct Expected {
  std::string text;
  std::optional<std::string> stop;
  size_t consumed;  // bytes up to the end of the stop string, or of the whole text without one
};

// The result by its definition: the shortest beginning of the text that ends with a stop string and
// is longer than `passed` bytes.
Expected Naive(const std::string& text, size_t passed, const std::vector<std::string>& stops,
               bool include) {
  for (size_t end = passed + 1; end <= text.size(); ++end) {
    std::optional<std::string> found;
    for (const std::string& stop : stops) {
      if (stop.empty() || stop.size() > end) continue;
      if (text.compare(end - stop.size(), stop.size(), stop) != 0) continue;
      if (!found.has_value() || stop.size() > found->size()) found = stop;
    }
    if (found.has_value()) {
      return {text.substr(0, include ? end : end - found->size()), found, end};
    }
  }
  return {text, std::nullopt, text.size()};
}

std::string RandomLetters(std::mt19937& random, size_t max_size) {
  std::string text(random() % (max_size + 1), '\0');
  for (char& byte : text) byte = "ab"[random() % 2];
  return text;
}

TEST(StopMatcher, AnyChunkingGivesTheNaiveResultAndLeaksNothing) {
  std::mt19937 random(1);
  int matches = 0;
  for (int round = 0; round < 200'000; ++round) {
    const std::string text = RandomLetters(random, 20);
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = RandomLetters(random, 6);
    const bool include = random() % 2 == 0;
    const size_t passed = random() % 2 == 0 ? 0 : random() % (text.size() + 1);
    const Expected expected = Naive(text, passed, stops, include);

    StopMatcher matcher(stops, include);
    std::string delivered;
    std::optional<std::string> stop;
    for (size_t position = 0; position < text.size();) {
      const bool pass = position < passed;
      const size_t size = std::min<size_t>(random() % 6, (pass ? passed : text.size()) - position);
      const std::string chunk = text.substr(position, size);
      StopMatcher::Result result =
          pass ? StopMatcher::Result{.text = matcher.Pass(chunk), .stop = {}} : matcher.Push(chunk);
      ASSERT_TRUE(position < expected.consumed || result.text.empty());
      delivered += result.text;
      ASSERT_EQ(delivered, expected.text.substr(0, delivered.size()));
      if (result.stop.has_value()) {
        ASSERT_FALSE(stop.has_value());
        stop = std::move(result.stop);
      }
      position += chunk.size();
    }
    delivered += matcher.Finish();
    ASSERT_EQ(delivered, expected.text) << text;
    ASSERT_EQ(stop, expected.stop) << text;
    ASSERT_EQ(matcher.matched(), expected.stop.has_value());
    matches += matcher.matched();
  }
  EXPECT_GT(matches, 50'000);
}

TEST(StopMatcher, HoldsBackNoMoreThanTheBeginningOfAStop) {
  StopMatcher matcher({"###", "\nUser:"}, false);
  EXPECT_EQ(matcher.Push("Hello").text, "Hello");
  EXPECT_EQ(matcher.Push(" ##").text, " ");
  EXPECT_EQ(matcher.Push("x\nUs").text, "##x");
  EXPECT_EQ(matcher.Push("age").text, "\nUsage");
  EXPECT_EQ(matcher.Push("\nUse").text, "");
  const StopMatcher::Result result = matcher.Push("r: me too");
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.stop, "\nUser:");
  EXPECT_EQ(matcher.Push("leak").text, "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, AStopMayBeginInTextWithinWhichNoneMayEnd) {
  StopMatcher matcher({"bc"}, false);
  EXPECT_EQ(matcher.Pass("abcb"), "abc");
  const StopMatcher::Result result = matcher.Push("cd");
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.stop, "bc");
}

TEST(StopMatcher, TheEarlierEndWinsOverTheEarlierBeginning) {
  StopMatcher matcher({"abcd", "c"}, false);
  const StopMatcher::Result result = matcher.Push("xabcd");
  EXPECT_EQ(result.text, "xab");
  EXPECT_EQ(result.stop, "c");
}

TEST(StopMatcher, AmongStopsWithOneEndTheLongerWins) {
  StopMatcher matcher({"c", "bc"}, true);
  const StopMatcher::Result result = matcher.Push("abcd");
  EXPECT_EQ(result.text, "abc");
  EXPECT_EQ(result.stop, "bc");
}

TEST(StopMatcher, WithoutStopsTextPassesAtOnce) {
  StopMatcher matcher({""}, false);
  EXPECT_EQ(matcher.Push("text").text, "text");
  EXPECT_FALSE(matcher.matched());
}

}  // namespace
}  // namespace baton
