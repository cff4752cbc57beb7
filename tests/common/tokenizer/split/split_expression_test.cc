#include "common/tokenizer/split/split_expression.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Parts = std::vector<std::pair<std::string, bool>>;

absl::StatusOr<Parts> Split(absl::string_view expression, absl::string_view text,
                            bool use_jit = true) {
  const auto made = SplitExpression::Create(expression, use_jit);
  if (!made.ok()) return made.status();
  Parts parts;
  SplitBudget budget(text.size());
  const absl::Status status = made->Split(
      text, budget,
      [&](absl::string_view piece, bool is_match) { parts.emplace_back(piece, is_match); });
  if (!status.ok()) return status;
  return parts;
}

TEST(SplitExpression, TellsMatchesFromTheTextBetween) {
  EXPECT_THAT(*Split("[0-9]+", "ab12c3"),
              ElementsAre(Pair("ab", false), Pair("12", true), Pair("c", false), Pair("3", true)));
  EXPECT_THAT(*Split("x", ""), ElementsAre());
  EXPECT_THAT(*Split("x", "é中"), ElementsAre(Pair("é中", false)));
}

TEST(SplitExpression, AnEmptyMatchCutsTheTextBetween) {
  EXPECT_THAT(*Split("(?=b)", "aabab"),
              ElementsAre(Pair("aa", false), Pair("", true), Pair("ba", false), Pair("", true),
                          Pair("b", false)));
}

TEST(SplitExpression, LooksBehindIntoTheTextBefore) {
  EXPECT_THAT(*Split("(?<=a)b", "bab"), ElementsAre(Pair("ba", false), Pair("b", true)));
}

TEST(SplitExpression, AnExpressionOfMoreThanLinearCostIsStopped) {
  const std::string spaces(20'000, ' ');
  for (const bool use_jit : {true, false}) {
    const auto quadratic = Split(R"(\s+$x)", spaces + "x", use_jit);
    EXPECT_EQ(quadratic.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(quadratic.status().message()), HasSubstr("too many steps"));
    EXPECT_EQ(Split("(a|a)*c", std::string(100, 'a') + "bc", use_jit).status().code(),
              absl::StatusCode::kResourceExhausted);
    // Many steps for one match are fine if the match is as long.
    EXPECT_THAT(*Split(R"(\s*x|\s+)", spaces, use_jit), ElementsAre(Pair(spaces, true)));
  }
}

TEST(SplitExpression, WhatCostsTimeButNoStepsIsStoppedByTheClock) {
  const std::string text(500'000, 'x');
  for (const char* expression : {R"(\p{L}*\p{N})", "(?=x*y)x"}) {
    for (const bool use_jit : {true, false}) {
      const auto made = SplitExpression::Create(expression, use_jit);
      ASSERT_TRUE(made.ok()) << made.status();
      SplitBudget budget(/*text_bytes=*/0, /*free_time=*/absl::Milliseconds(50));
      const absl::Status status = made->Split(text, budget, [](absl::string_view, bool) {});
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << expression;
    }
  }
}

TEST(SplitExpression, AMatchFarAwayIsFoundWhateverCharactersStandBefore) {
  for (const size_t before : {0, 1, 62, 63, 64, 65, 1000}) {
    std::string text;
    for (size_t i = 0; i < before; ++i) text += i % 3 == 0 ? "中" : i % 3 == 1 ? "é" : "a";
    Parts expected = {{"7", true}, {"b", false}};
    if (before > 0) expected.insert(expected.begin(), {text, false});
    EXPECT_EQ(*Split("(?<![0-9])[0-9]", text + "7b"), expected) << before;
  }
}

}  // namespace
}  // namespace baton
