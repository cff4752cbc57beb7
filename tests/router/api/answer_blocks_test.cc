#include "router/api/answer_blocks.h"

#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/api/played_answer.h"
#include "tests/router/api/scripted_parser.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

std::vector<BlockEvent> AddAll(AnswerBlocks& blocks,
                               const std::vector<v1::GenerateResponse>& responses) {
  std::vector<BlockEvent> events;
  for (const v1::GenerateResponse& response : responses) {
    for (BlockEvent& event : blocks.Add(response)) events.push_back(std::move(event));
  }
  return events;
}

// Each block as a letter of its kind, the tool's name, its text, and the bytes of its tokens.
std::vector<std::string> Shown(const AnswerBlocks& blocks, const std::vector<BlockEvent>& events) {
  std::vector<std::string> result;
  for (const AnswerBlock& block : blocks.blocks()) {
    const char kind = "rtc"[static_cast<int>(block.kind)];
    result.push_back(absl::StrCat(std::string(1, kind), block.id, block.name, ":", block.text));
  }
  for (const BlockEvent& event : events) {
    for (const v1::TokenLogprob& token : event.logprobs) {
      absl::StrAppend(&result[event.block], "|", token.token());
    }
  }
  return result;
}

std::vector<std::string> BlocksOf(const PlayedAnswer& answer) {
  AnswerBlocks blocks(NewScriptedParser());
  const std::vector<BlockEvent> events = AddAll(blocks, Whole(answer));
  return Shown(blocks, events);
}

TEST(AnswerBlocks, TellsReasoningTextAndCallsApart) {
  EXPECT_THAT(BlocksOf({.text = "~rhm~tIt is~cget~a{}~cput~a[1]~tdone"}),
              ElementsAre("r:hm", "t:It is", "ccall0get:{}", "ccall1put:[1]", "t:done"));
}

TEST(AnswerBlocks, HasOneEmptyTextWhereTheAnswerIsEmpty) {
  EXPECT_THAT(BlocksOf({}), ElementsAre("t:"));
}

TEST(AnswerBlocks, ShowsNoTextOfWhiteSpaceBetweenOthers) {
  EXPECT_THAT(BlocksOf({.text = "~rhm~t\n\n~cget~a{}~t\n"}), ElementsAre("r:hm", "ccall0get:{}"));
  EXPECT_THAT(BlocksOf({.text = "~rhm~t\n\nHi\n"}), ElementsAre("r:hm", "t:\n\nHi\n"));
  EXPECT_THAT(BlocksOf({.text = " \n"}), ElementsAre("t: \n"));
}

TEST(AnswerBlocks, GivesATextTheTokensThatItIsMadeOf) {
  EXPECT_THAT(BlocksOf({.text = "~rhm~tIt is~cget~a{}~t!",
                        .tokens = {"~r", "h", "m", "~t", "It", " is", "~c", "get~a", "{}", "~t!"}}),
              ElementsAre("r:hm", "t:It is|It| is", "ccall0get:{}", "t:!|~t!"));
}

TEST(AnswerBlocks, AreTheSameHoweverAnAnswerIsCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const PlayedAnswer answer = RandomAnswer(random, /*with_tokens=*/round % 2 == 0);
    AnswerBlocks blocks(NewScriptedParser());
    const std::vector<BlockEvent> events = AddAll(blocks, Streamed(answer, random));
    EXPECT_EQ(Shown(blocks, events), BlocksOf(answer)) << answer.text;
  }
}

TEST(AnswerBlocks, BeginGrowAndEndOneAfterTheOther) {
  std::mt19937 random(8);
  for (int round = 0; round < 300; ++round) {
    const PlayedAnswer answer = RandomAnswer(random, /*with_tokens=*/round % 2 == 0);
    AnswerBlocks blocks(NewScriptedParser());
    std::vector<std::string> texts;
    bool open = false;
    for (const BlockEvent& event : AddAll(blocks, Streamed(answer, random))) {
      if (event.kind == BlockEvent::Kind::kBegin) {
        EXPECT_FALSE(open);
        texts.emplace_back();
      }
      open = event.kind != BlockEvent::Kind::kEnd;
      ASSERT_EQ(event.block + 1, texts.size());
      EXPECT_EQ(event.delta.empty(), event.kind != BlockEvent::Kind::kDelta);
      texts.back() += event.delta;
    }
    EXPECT_FALSE(open);
    ASSERT_EQ(texts.size(), blocks.blocks().size());
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], blocks.blocks()[i].text);
  }
}

TEST(AnswerBlocks, KeepTheEndOfTheAnswer) {
  AnswerBlocks blocks(NewScriptedParser());
  blocks.Add(ChunkOf("Hi"));
  EXPECT_FALSE(blocks.complete().has_value());
  blocks.Add(EndOf({.finish_reason = v1::FINISH_REASON_LENGTH}));
  ASSERT_TRUE(blocks.complete().has_value());
  EXPECT_EQ(blocks.complete()->finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(blocks.complete()->usage().prompt_tokens(), 7);
}

}  // namespace
}  // namespace baton
