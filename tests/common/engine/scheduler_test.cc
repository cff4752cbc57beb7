#include "common/engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/common/engine/test_sequences.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;
using State = Sequence::State;

SequenceRequest MakeRequest(Mode mode, int tokens, int max_tokens = 1000, bool isolate = false) {
  SequenceRequest request;
  request.mode = mode;
  request.token_ids.assign(static_cast<size_t>(tokens), 1);
  request.prompt_length = tokens;
  request.sampling.max_tokens = max_tokens;
  request.isolate = isolate;
  return request;
}

// A scheduler whose steps are "computed" by counting: what the engine does, without a model.
class SchedulerTest : public testing::Test {
 protected:
  static constexpr int kBlockSize = 16;
  static constexpr int kMaxModelLen = 1 << 30;  // as good as none

  void Make(int blocks, int max_num_seqs = 8) {
    Make(blocks, max_num_seqs, {.block_size = kBlockSize});
  }
  // A layer without a window, one with a window of 16 blocks, and a prefix cache.
  void MakeWithWindow(int blocks) {
    const KvLayout layout = {.block_size = kBlockSize,
                             .groups = KvLayerGroups({0, 16 * kBlockSize})};
    Make(blocks, 8,
         {.block_size = kBlockSize, .groups = layout.groups, .chunk_tokens = kChunkTokens},
         &layout);
  }
  void Make(int blocks, int max_num_seqs, const BlockLedger::Options& options,
            const KvLayout* cached = nullptr) {
    sequences_.reset();  // gives its blocks back to the last pool
    cache_.reset();
    pool_ = std::make_unique<BlockPool>(blocks);
    steps_ = std::make_unique<StepsInFlight>();
    if (cached != nullptr) cache_ = std::make_unique<PrefixCache>("model", *cached, *pool_);
    ledger_ = std::make_unique<BlockLedger>(options, *pool_, cache_.get(), *steps_);
    sequences_ = std::make_unique<SequenceTable>(kMaxModelLen, *ledger_, *steps_);
    scheduler_ = std::make_unique<Scheduler>(max_num_seqs, *sequences_, *ledger_);
  }
  Sequence& Add(Mode mode, int tokens, int max_tokens = 1000, bool isolate = false) {
    return sequences_->Add(next_id_++,
                           TestSequences::Trust(MakeRequest(mode, tokens, max_tokens, isolate)));
  }
  // One step; every sequence whose tokens are all computed gets another one, or ends.
  Schedule Step(int row_budget = 128) {
    Schedule schedule = scheduler_->Next(row_budget);
    pool_->CheckInvariants();
    batch_ids_.clear();
    for (const ScheduledTokens& scheduled : schedule.batch) {
      Sequence& sequence = *scheduled.sequence;
      batch_ids_.push_back(sequence.id);
      sequences_->MarkComputed(sequence, scheduled.end_token());
      if (sequence.uncomputed_tokens() > 0) continue;
      if (sequence.request.mode == Mode::kPrefillOnly) {
        sequences_->Hold(sequence);
        continue;
      }
      sequence.tokens.ids.push_back(1);
      if (sequence.output_count() >= sequence.request.sampling.max_tokens) {
        finished_.push_back(sequence.id);
        sequences_->Remove(sequence);
      }
    }
    return schedule;
  }

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<StepsInFlight> steps_;
  std::unique_ptr<PrefixCache> cache_;
  std::unique_ptr<BlockLedger> ledger_;
  std::unique_ptr<SequenceTable> sequences_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<SequenceId> finished_;
  std::vector<SequenceId> batch_ids_;  // the batch of the last step
  SequenceId next_id_ = 1;
};

TEST_F(SchedulerTest, ChunksEndOnMultiplesOf64ExceptTheLast) {
  Make(100);
  Add(Mode::kPrefillOnly, 300);
  std::vector<int> ends;
  for (int i = 0; i < 10; ++i) {
    const Schedule schedule = Step(150);
    if (schedule.batch.empty()) break;
    ends.push_back(schedule.batch[0].end_token());
  }
  EXPECT_THAT(ends, testing::ElementsAre(128, 256, 300));
}

TEST_F(SchedulerTest, DecodesGoFirstAndPrefillsTakeTheRestOfTheBudget) {
  Make(100);
  Add(Mode::kLocal, 10);
  Add(Mode::kLocal, 20);
  Step();
  Add(Mode::kLocal, 200);
  Add(Mode::kLocal, 50);
  const Schedule schedule = Step(2 + 64 + 50);
  ASSERT_EQ(schedule.batch.size(), 4u);
  EXPECT_EQ(schedule.batch[0].token_count, 1);
  EXPECT_EQ(schedule.batch[1].token_count, 1);
  EXPECT_EQ(schedule.batch[2].token_count, 64);
  EXPECT_EQ(schedule.batch[3].token_count, 50);
}

TEST_F(SchedulerTest, DecodesNeverStarveAPrefill) {
  Make(200, 70);
  for (int i = 0; i < 66; ++i) Add(Mode::kLocal, 1);
  Step(1000);
  Add(Mode::kLocal, 100);
  const Schedule schedule = Step(64);
  ASSERT_EQ(schedule.batch.size(), 67u);
  EXPECT_EQ(schedule.batch.back().token_count, 64);
}

TEST_F(SchedulerTest, NoMoreThanMaxNumSeqsRunAndPausedOnesDoNotCount) {
  Make(100, 2);
  Sequence& first = Add(Mode::kLocal, 10);
  Add(Mode::kLocal, 10);
  Sequence& third = Add(Mode::kLocal, 10);
  EXPECT_EQ(Step().batch.size(), 2u);
  EXPECT_EQ(Step().batch.size(), 2u);
  EXPECT_EQ(third.state(), State::kWaiting);
  first.paused = true;
  const size_t blocks = first.blocks.held.size();
  EXPECT_EQ(Step().batch.size(), 2u);
  EXPECT_EQ(third.state(), State::kRunning);
  EXPECT_EQ(first.blocks.held.size(), blocks);
  first.paused = false;
  const Schedule schedule = Step();
  ASSERT_EQ(schedule.batch.size(), 2u);
  EXPECT_EQ(schedule.batch[0].sequence, &first) << "the oldest are in the batch";
}

TEST_F(SchedulerTest, AReservationIsForAllTokensAndOneBlockOfHeadRoom) {
  Make(10);
  Sequence& sequence = Add(Mode::kReceive, 33);
  const Schedule schedule = Step();
  EXPECT_THAT(schedule.admitted, testing::ElementsAre(&sequence));
  EXPECT_EQ(pool_->reserved_blocks(), 4);
  sequences_->OpenReceive(sequence, "");
  EXPECT_EQ(sequence.blocks.table.size(), 3u);
  EXPECT_EQ(pool_->reserved_blocks(), 1);
  EXPECT_TRUE(Step().batch.empty());
  sequences_->Commit(sequence, {5});
  const Schedule first = Step();
  ASSERT_EQ(first.batch.size(), 1u);
  EXPECT_EQ(first.batch[0].first_token, 33);
  EXPECT_EQ(first.batch[0].token_count, 1);
  sequences_->Remove(sequence);
  EXPECT_EQ(pool_->available_blocks(), 10);
}

TEST_F(SchedulerTest, ReservationsAreFirstComeFirstServed) {
  Make(10);
  Sequence& first = Add(Mode::kReceive, 96);   // 7 blocks
  Sequence& second = Add(Mode::kReceive, 64);  // 5 blocks
  Sequence& small = Add(Mode::kReceive, 16);   // 2 blocks: would fit, and waits behind
  Step();
  EXPECT_EQ(first.state(), State::kReserved);
  EXPECT_EQ(second.state(), State::kWaiting);
  EXPECT_EQ(small.state(), State::kWaiting);
  sequences_->Remove(first);
  Step();
  EXPECT_EQ(second.state(), State::kReserved);
  EXPECT_EQ(small.state(), State::kReserved);
}

TEST_F(SchedulerTest, LackOfAPlaceInTheBatchDoesNotHoldUpReservations) {
  Make(20, 1);
  Add(Mode::kLocal, 16);
  Step();
  Sequence& local = Add(Mode::kLocal, 16);
  Sequence& receive = Add(Mode::kReceive, 16);
  Step();
  EXPECT_EQ(local.state(), State::kWaiting);
  EXPECT_EQ(receive.state(), State::kReserved);
}

TEST_F(SchedulerTest, PreemptsTheYoungestAndPausedOnesBeforeIt) {
  Make(6);
  Sequence& oldest = Add(Mode::kLocal, 15);
  Sequence& paused = Add(Mode::kLocal, 15);
  Sequence& youngest = Add(Mode::kLocal, 15);
  Step();
  paused.paused = true;
  std::vector<Sequence*> preempted;
  while (preempted.size() < 2) {
    for (Sequence* sequence : Step().preempted) preempted.push_back(sequence);
  }
  EXPECT_THAT(preempted, testing::ElementsAre(&paused, &youngest));
  EXPECT_EQ(oldest.state(), State::kRunning);
  EXPECT_EQ(youngest.kv.computed_tokens, 0);
  EXPECT_TRUE(youngest.blocks.held.empty());
}

TEST_F(SchedulerTest, NeverPreemptsWhosePeerReadsOrWritesTheBlocks) {
  Make(8);
  Sequence& sent = Add(Mode::kPrefillOnly, 48);
  Sequence& received = Add(Mode::kReceive, 16);
  Sequence& local = Add(Mode::kLocal, 16);
  Step();
  sequences_->OpenReceive(received, "");
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(Step().preempted.empty());
  EXPECT_EQ(sent.blocks.held.size(), 3u);
  EXPECT_EQ(received.blocks.held.size(), 1u);
  EXPECT_EQ(local.blocks.held.size(), 3u) << "sits out with what it has";
  EXPECT_TRUE(Step().batch.empty());
  EXPECT_EQ(scheduler_->CountSequences().runnable, 0);
  // Once committed, the older one uses its head-room, and the end of the peer's lets both go on.
  sequences_->Commit(received, {1});
  EXPECT_EQ(Step().batch.size(), 1u);
  sequences_->Remove(sent);
  EXPECT_EQ(Step().batch.size(), 2u);
}

TEST_F(SchedulerTest, ABlockThatAPeerWritesIsNobodyElses) {
  Make(8);
  Sequence& received = Add(Mode::kReceive, 40);
  Step();
  sequences_->OpenReceive(received, "");
  const BlockPool::Block other = pool_->Share(received.blocks.table[1]);
  EXPECT_DEATH(sequences_->Commit(received, {1}), "a block to be written is shared");
}

TEST_F(SchedulerTest, AnIsolatedSequenceIsAloneInItsBatches) {
  Make(100);
  Add(Mode::kLocal, 10, 20);
  Add(Mode::kLocal, 200, 3, /*isolate=*/true);
  Sequence& later = Add(Mode::kLocal, 10, 5);
  Step();
  std::vector<std::vector<SequenceId>> batches;
  while (finished_.empty()) {
    Step(64);
    batches.push_back(batch_ids_);
  }
  EXPECT_THAT(finished_, testing::ElementsAre(2));
  EXPECT_THAT(batches, testing::AllOf(testing::SizeIs(4 + 2),
                                      testing::Each(testing::ElementsAre(SequenceId{2}))));
  Step();
  EXPECT_EQ(later.state(), State::kRunning);
}

TEST_F(SchedulerTest, AnIsolatedSequenceThatSitsOutLetsThoseFinishWhoHaveTheBlocks) {
  Make(15);
  Sequence& sent = Add(Mode::kPrefillOnly, 200);
  Add(Mode::kLocal, 15, 30, /*isolate=*/true);
  Step(100);
  for (int i = 0; i < 30; ++i) Step();
  EXPECT_TRUE(finished_.empty());
  EXPECT_EQ(sent.state(), State::kHeld);
  sequences_->Remove(sent);
  for (int i = 0; i < 30; ++i) Step(64);
  EXPECT_THAT(finished_, testing::ElementsAre(2));
}

// It gives back blocks of its window that another still has, so that nothing comes free for the
// next ones.
TEST_F(SchedulerTest, AnIsolatedPromptThatSitsOutLetsThoseFinishWhoHaveTheBlocks) {
  MakeWithWindow(200);
  Add(Mode::kLocal, 700, 3, /*isolate=*/true);
  for (int i = 0; i < 3; ++i) Step(64);
  Sequence& sharer = Add(Mode::kReceive, 276, 20);
  Step(64);
  sequences_->OpenReceive(sharer, "");
  sequences_->Commit(sharer, {1});
  ASSERT_EQ(sharer.kv.cached_tokens, 256);
  const auto others = pool_->TryReserve(pool_->available_blocks());
  for (int i = 0; i < 40; ++i) Step(64);
  EXPECT_THAT(finished_, testing::ElementsAre(2, 1));
}

// Each gives back blocks of its window that the other still has. What they had in place of these
// comes free, as no peer reads it.
TEST_F(SchedulerTest, TwoPromptsOfTheSameTokensDoNotWaitForEachOther) {
  const auto blocks_of_one =
      KvLayerGroups({0, 16 * kBlockSize}).BlocksOf(700, kBlockSize, kChunkTokens);
  MakeWithWindow(2 * static_cast<int>(blocks_of_one));
  Sequence& first = Add(Mode::kPrefillOnly, 700);
  Sequence& second = Add(Mode::kPrefillOnly, 700);
  for (int step = 0; step < 60; ++step) {
    first.paused = step % 2 == 1;
    second.paused = step % 2 == 0;
    Step(64);
  }
  EXPECT_EQ(first.state(), State::kHeld);
  EXPECT_EQ(second.state(), State::kHeld);
}

// Random life on small pools: the books balance after every step, nobody is stuck, whoever is not
// released finishes, and at rest nothing is used or reserved.
TEST_F(SchedulerTest, UnderRandomLoadEverybodyFinishesAndNothingIsLeft) {
  size_t preempted = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const int blocks = 6 + static_cast<int>(random() % 20);
    Make(blocks, 1 + static_cast<int>(random() % 6));
    finished_.clear();
    std::set<SequenceId> expected, alive;
    int idle_steps = 0;
    for (int step = 0; step < 3000 && (step < 300 || !alive.empty()); ++step) {
      const bool quiet = step >= 300;
      if (!quiet && random() % 3 == 0) {
        const auto mode = static_cast<Mode>(random() % 3);
        const int most = blocks * kBlockSize;
        const int tokens = 1 + static_cast<int>(random() % static_cast<unsigned>(most - 1));
        const int max_tokens =
            1 + static_cast<int>(random() % static_cast<unsigned>(most - tokens + 1));
        alive.insert(Add(mode, tokens, max_tokens, random() % 20 == 0).id);
      }
      for (SequenceId id : std::set<SequenceId>(alive)) {
        Sequence* sequence = sequences_->Find(id);
        if (sequence == nullptr) {
          alive.erase(id);
          continue;
        }
        if (quiet) sequence->paused = false;
        if (!quiet && random() % 10 == 0) sequence->paused = random() % 2 == 0;
        if (sequence->state() == State::kReserved && random() % 4 == 0) {
          sequences_->OpenReceive(*sequence, "");
        } else if (sequence->state() == State::kReceiving && random() % 4 == 0) {
          sequences_->Commit(*sequence, {1});
        } else if (sequence->state() == State::kHeld ? random() % 4 == 0
                                                     : !quiet && random() % 60 == 0) {
          sequences_->Remove(*sequence);
          alive.erase(id);
        }
      }
      const Schedule schedule = Step(64 + static_cast<int>(random() % 100));
      preempted += schedule.preempted.size();
      int used = 0;
      for (SequenceId id : alive) {
        const Sequence* sequence = sequences_->Find(id);
        if (sequence == nullptr) continue;
        used += static_cast<int>(sequence->blocks.held.size());
      }
      ASSERT_EQ(used, pool_->used_blocks());
      idle_steps = schedule.batch.empty() && schedule.preempted.empty() ? idle_steps + 1 : 0;
      ASSERT_LT(idle_steps, 200) << "seed " << seed << ": " << alive.size() << " are stuck";
    }
    EXPECT_TRUE(alive.empty() ||
                std::none_of(alive.begin(), alive.end(),
                             [&](SequenceId id) { return sequences_->Find(id) != nullptr; }))
        << "seed " << seed;
    EXPECT_EQ(pool_->available_blocks(), blocks);
  }
  EXPECT_GT(preempted, 300u);
}

}  // namespace
}  // namespace baton
