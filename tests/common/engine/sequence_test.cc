#include "common/engine/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace baton {
namespace {

using State = Sequence::State;
using testing::ElementsAre;

SequenceRequest Request(std::vector<int32_t> token_ids, int choice = 0, int choices = 1) {
  SequenceRequest request;
  request.prompt_length = static_cast<int>(token_ids.size());
  request.token_ids = std::move(token_ids);
  request.choice = choice;
  request.choices = choices;
  request.sampling.max_tokens = 5;
  request.sampling.presence_penalty = 1;  // counts output tokens
  return request;
}

TEST(Sequence, CountsPendingOutputsAsTokensAndGivesThemTheirIdsInOrder) {
  Sequence sequence(1, 0, Request({7, 8, 9}), /*max_model_len=*/100);
  EXPECT_EQ(sequence.tokens.most, 3 + 5);
  sequence.kv.computed_tokens = 3;
  sequence.tokens.pending_outputs = 1;
  EXPECT_EQ(sequence.tokens.count(), 4);
  EXPECT_EQ(sequence.output_count(), 1);
  EXPECT_EQ(sequence.uncomputed_tokens(), 1);
  EXPECT_TRUE(sequence.tokens.AddOutput(5).ok());
  EXPECT_EQ(sequence.tokens.count(), 4) << "the pending one has its id";
  EXPECT_TRUE(sequence.tokens.AddOutput(6).ok());
  EXPECT_EQ(sequence.tokens.count(), 5) << "none was pending";
  EXPECT_THAT(sequence.tokens.ids, ElementsAre(7, 8, 9, 5, 6));
  EXPECT_EQ(sequence.tokens.counts.output_counts().at(5), 1);
}

TEST(Sequence, EndsAtTheModelsLengthWhereThatComesFirst) {
  EXPECT_EQ(Sequence(1, 0, Request({7, 8, 9}), /*max_model_len=*/6).tokens.most, 6);
}

TEST(Sequence, IsCompleteOnceItsLastOutputIsPending) {
  Sequence sequence(1, 0, Request({7, 8, 9}), /*max_model_len=*/5);
  EXPECT_TRUE(sequence.tokens.AddOutput(1).ok());
  EXPECT_FALSE(sequence.complete());
  sequence.tokens.pending_outputs = 1;
  EXPECT_TRUE(sequence.complete());
}

TEST(Sequence, ForksIntoOneThatIsAlikeButForItsChoiceAndItsBlocks) {
  BlockPool pool(2);
  Sequence first(4, 10, Request({7, 8, 9}, /*choice=*/3, /*choices=*/3), 100);
  EXPECT_THAT(first.choices, ElementsAre(3, 4, 5));
  EXPECT_TRUE(first.forks());
  first.Enter(State::kRunning);
  first.blocks.Add(*pool.TryAllocate());
  first.kv = {.computed_tokens = 3, .prefill_tokens = 3, .committed = true, .numerics = "other"};
  first.times.ready = absl::UnixEpoch();
  first.admitted = first.paused = true;
  first.last_step = 6;
  first.preemptions = 2;
  const std::unique_ptr<Sequence> other = first.Fork(5);
  EXPECT_EQ(other->id, 4u);
  EXPECT_EQ(other->arrival, 12u) << "in the order of the choices";
  EXPECT_THAT(other->choices, ElementsAre(5));
  EXPECT_EQ(other->request.choice, 5);
  EXPECT_EQ(other->request.choices, 1);
  EXPECT_EQ(other->state(), State::kRunning);
  EXPECT_EQ(other->tokens.ids, first.tokens.ids);
  EXPECT_EQ(other->tokens.most, first.tokens.most);
  EXPECT_EQ(other->kv.computed_tokens, 3);
  EXPECT_EQ(other->kv.prefill_tokens, 3);
  EXPECT_TRUE(other->kv.committed);
  EXPECT_EQ(other->kv.numerics, "other");
  EXPECT_EQ(other->times.ready, absl::UnixEpoch());
  EXPECT_TRUE(other->admitted && other->paused);
  EXPECT_EQ(other->last_step, 6u);
  EXPECT_EQ(other->preemptions, 2);
  EXPECT_EQ(other->blocks.count(), 0);
  EXPECT_EQ(first.blocks.count(), 1);
}

TEST(Sequence, GoesOnlyAlongTheArrowsOfItsLife) {
  Sequence received(1, 0, Request({7}), 100);
  EXPECT_DEATH(received.Enter(State::kReceiving), "a sequence's life");
  EXPECT_DEATH(received.Enter(State::kHeld), "a sequence's life");
  EXPECT_DEATH(received.Enter(State::kWaiting), "a sequence's life");
  received.Enter(State::kReserved);
  EXPECT_DEATH(received.Enter(State::kRunning), "a sequence's life");
  received.Enter(State::kReceiving);
  received.Enter(State::kRunning);
  EXPECT_DEATH(received.Enter(State::kReserved), "a sequence's life");
  received.Enter(State::kWaiting);  // preempted
  received.Enter(State::kRunning);
  received.Enter(State::kHeld);
  EXPECT_DEATH(received.Enter(State::kRunning), "a sequence's life");
  received.Enter(State::kEnded);
  EXPECT_DEATH(received.Enter(State::kEnded), "a sequence's life");
}

TEST(Sequence, SharesBlocksOnlyOfThisEnginesNumericsThatACommitVouchedFor) {
  SequenceKv kv;
  EXPECT_TRUE(kv.shareable());
  kv.vouched = false;
  EXPECT_FALSE(kv.shareable());
  kv = {.numerics = "other"};
  EXPECT_FALSE(kv.shareable());
}

TEST(SequenceBlocks, GiveBackTheLastBlockFirstAndWhatIsReserved) {
  BlockPool pool(4);
  std::vector<int32_t> table;
  {
    SequenceBlocks blocks;
    blocks.reservation = *pool.TryReserve(1);
    for (int i = 0; i < 3; ++i) blocks.Add(*pool.TryAllocate());
    for (const int32_t block : blocks.table) pool.Keep(block);
    table = blocks.table;
    EXPECT_EQ(blocks.count(), 3);
    EXPECT_EQ(pool.reserved_blocks(), 1);
  }
  EXPECT_EQ(pool.available_blocks(), 4);
  // Once the block that is free and not kept is taken, the least recently used one comes next.
  const auto other = pool.TryAllocate();
  EXPECT_EQ(pool.TryAllocate()->id(), table[2]);
}

}  // namespace
}  // namespace baton
