#include "router/tools/reasoning_splitter.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/router/tools/joined_parts.h"

namespace baton {
namespace {

const ReasoningMarkers kThinkMarkers{"<think>", "</think>"};

// "(reasoning)text", which is the same however the answer is cut.
std::string SplitReasoning(const std::string& answer, const ReasoningMarkers& markers,
                           bool is_open = false) {
  std::string first;
  for (const size_t piece : {answer.size(), size_t{1}, size_t{3}}) {
    ReasoningSplitter splitter(markers, is_open);
    AnswerParts parts;
    std::string text;
    for (size_t at = 0; at < answer.size(); at += piece) {
      text += splitter.Add(answer.substr(at, piece), parts);
    }
    text += splitter.Finish(parts);
    const std::string split = Shown(Joined(parts.Take())) + text;
    if (piece == answer.size()) first = split;
    EXPECT_EQ(split, first) << piece;
  }
  return first;
}

TEST(ReasoningSplitter, BlanksBesideTheMarkersBelongToThem) {
  EXPECT_EQ(SplitReasoning(" \n<think>\n hm, so \n</think>\n\nHi there ", kThinkMarkers),
            "(hm, so)Hi there ");
}

TEST(ReasoningSplitter, ReasoningStandsAtTheBeginningOnly) {
  EXPECT_EQ(SplitReasoning("Hi <think>hm</think>", kThinkMarkers), "Hi <think>hm</think>");
  EXPECT_EQ(SplitReasoning("<think>hm</think>Hi <think>x</think>", kThinkMarkers),
            "(hm)Hi <think>x</think>");
  EXPECT_EQ(SplitReasoning("  <thing>", kThinkMarkers), "  <thing>");
}

TEST(ReasoningSplitter, AnAnswerMayBeginInsideTheReasoning) {
  EXPECT_EQ(SplitReasoning("\nhm</think>Hi", kThinkMarkers, /*is_open=*/true), "(hm)Hi");
}

TEST(ReasoningSplitter, AnAnswerThatEndsInsideIsReasoning) {
  EXPECT_EQ(SplitReasoning("<think>hm </thi", kThinkMarkers), "(hm </thi)");
  EXPECT_EQ(SplitReasoning("<thi", kThinkMarkers), "<thi") << "it did not begin";
}

TEST(ReasoningSplitter, AModelWithoutReasoningIsNotHeldBack) {
  ReasoningSplitter splitter({}, /*is_open=*/false);
  AnswerParts parts;
  EXPECT_EQ(splitter.Add(" <think>", parts), " <think>");
  EXPECT_TRUE(parts.Take().empty());
}

}  // namespace
}  // namespace baton
