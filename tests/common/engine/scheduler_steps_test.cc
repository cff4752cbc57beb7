// The scheduler with a step in flight while the next one is chosen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "common/engine/scheduler.h"
#include "tests/common/engine/test_sequences.h"

namespace baton {
namespace {

constexpr int kBlockSize = 16;
constexpr int kMaxModelLen = 120;

class Steps {
 public:
  explicit Steps(unsigned seed)
      : random_(seed),
        pool_(11),
        prefix_cache_("model", {.block_size = kBlockSize}, pool_),
        ledger_({.block_size = kBlockSize}, pool_, &prefix_cache_, steps_),
        sequences_(kMaxModelLen, ledger_, steps_),
        scheduler_(/*max_num_seqs=*/4, sequences_, ledger_) {}

  void Run(int ticks) {
    for (int tick = 0; tick < ticks; ++tick) {
      if (Chance(4)) Add();
      if (Chance(20)) RemoveOne();
      if (Chance(20)) PauseOne();
      if (!in_flight_.empty() && scheduler_.MayPreempt()) DoneUntil(0);
      Enqueue();
      pool_.CheckInvariants();
      if (testing::Test::HasFailure()) return;
    }
    DoneUntil(0);
    while (!ids_.empty()) RemoveOne();
    EXPECT_EQ(pool_.used_blocks(), 0);
    EXPECT_EQ(pool_.reserved_blocks(), 0);
  }

  int over_runs() const { return over_runs_; }
  int preemptions() const { return preemptions_; }
  int replaced() const { return replaced_; }
  int parted() const { return parted_; }
  int copies() const { return copies_; }

 private:
  struct Step {
    Schedule schedule;
    std::vector<BlockRef> blocks;  // blocks that it may touch
  };

  bool Chance(int one_in) { return random_() % static_cast<unsigned>(one_in) == 0; }

  // Prompts begin alike, so that they find and enter the same blocks.
  void Add() {
    SequenceRequest request;
    request.token_ids.assign(1 + random_() % 70, 7);
    if (Chance(2)) request.token_ids.back() = 8;
    request.prompt_length = static_cast<int>(request.token_ids.size());
    request.sampling.max_tokens = 1 + static_cast<int>(random_() % 60);
    if (Chance(6)) request.choices = 1 + static_cast<int>(random_() % 4);
    sequences_.Add(++last_id_, TestSequences::Trust(std::move(request)));
    ids_.push_back(last_id_);
  }

  Sequence* AnyOne() {
    return ids_.empty() ? nullptr : sequences_.Find(ids_[random_() % ids_.size()]);
  }

  void RemoveOne() {
    Sequence* sequence = AnyOne();
    if (sequence == nullptr) return;
    const SequenceId id = sequence->id;
    if (sequences_.InFlight(*sequence)) DoneUntil(0);
    sequence = sequences_.Find(id);
    if (sequence == nullptr) return;
    if (!sequence->forks()) return Remove(*sequence);
    sequences_.DropChoice(*sequence, sequence->choices[random_() % sequence->choices.size()]);
  }

  void PauseOne() {
    Sequence* sequence = AnyOne();
    if (sequence != nullptr) sequence->paused = !sequence->paused;
  }

  void Remove(Sequence& sequence) {
    const SequenceId id = sequence.id;
    sequences_.Remove(sequence);
    if (sequences_.Find(id) == nullptr) std::erase(ids_, id);
  }

  void Enqueue() {
    Step step = {.schedule = scheduler_.Next(/*row_budget=*/128), .blocks = {}};
    preemptions_ += static_cast<int>(step.schedule.preempted.size());
    if (step.schedule.batch.empty()) return DoneUntil(0);
    for (const ScheduledTokens& scheduled : step.schedule.batch) {
      const Sequence& sequence = *scheduled.sequence;
      EXPECT_LT(scheduled.end_token(), kMaxModelLen);
      EXPECT_LE(scheduled.end_token(),
                sequence.request.prompt_length + sequence.request.sampling.max_tokens - 1);
      EXPECT_LE(scheduled.end_token(), static_cast<int>(sequence.blocks.held.size()) * kBlockSize);
      for (const int32_t block : sequence.blocks.table) {
        step.blocks.push_back(pool_.Ref(block));
      }
      CheckWritesAlone(sequence, scheduled);
    }
    for (const BlockCopy& copy : step.schedule.copies) {
      EXPECT_NE(copy.from, copy.to);
      step.blocks.push_back(pool_.Ref(copy.from));
      ++copies_;
    }
    sequences_.StepEnqueued(step.schedule);
    in_flight_.push_back(std::move(step));
    DoneUntil(1);
  }

  // Another sequence that has a written block is about to copy it, and has no use for what comes
  // behind the tokens of both.
  void CheckWritesAlone(const Sequence& sequence, const ScheduledTokens& scheduled) {
    for (int index = scheduled.first_token / kBlockSize; index * kBlockSize < scheduled.end_token();
         ++index) {
      const int32_t block = sequence.blocks.table[static_cast<size_t>(index)];
      for (const SequenceId id : ids_) {
        for (const Sequence* other : sequences_.Choices(id)) {
          if (other == &sequence || other->state() == Sequence::State::kWaiting) continue;
          EXPECT_EQ(std::count(other->blocks.table.begin(), other->blocks.table.end(), block), 0)
              << "written where another reads";
        }
      }
    }
  }

  void DoneUntil(size_t count) {
    while (in_flight_.size() > count) {
      const Step step = std::move(in_flight_.front());
      in_flight_.pop_front();
      for (const BlockRef& held : step.blocks) {
        EXPECT_GT(pool_.reference_count(held.id), 0) << "a step in flight has it";
        EXPECT_TRUE(pool_.Lives(held)) << "a step in flight has it";
      }
      const std::vector<StepsInFlight::Leaving> leaving = sequences_.StepDone();
      for (const ScheduledTokens& scheduled : step.schedule.batch) {
        Apply(scheduled);
        parted_ += static_cast<int>(scheduled.parted.size());
        for (Sequence* other : scheduled.parted) Produce(*other);
      }
    }
  }

  void Apply(const ScheduledTokens& scheduled) {
    Sequence& sequence = *scheduled.sequence;
    if (sequence.state() == Sequence::State::kEnded) {
      ++over_runs_;
      return;
    }
    const std::vector<int32_t> table = sequence.blocks.table;
    sequences_.MarkComputed(sequence, scheduled.end_token());
    if (sequence.blocks.table != table) ++replaced_;
    if (!scheduled.produces_token) return;
    EXPECT_EQ(static_cast<int>(sequence.tokens.ids.size()), scheduled.end_token());
    Produce(sequence);
  }

  void Produce(Sequence& sequence) {
    EXPECT_TRUE(sequence.tokens.AddOutput(7).ok());
    const int tokens = static_cast<int>(sequence.tokens.ids.size());
    if (tokens >= sequence.tokens.most || Chance(15)) Remove(sequence);
  }

  std::mt19937 random_;
  BlockPool pool_;
  PrefixCache prefix_cache_;
  StepsInFlight steps_;
  BlockLedger ledger_;
  SequenceTable sequences_;
  Scheduler scheduler_;
  SequenceId last_id_ = 0;
  std::vector<SequenceId> ids_;
  std::deque<Step> in_flight_;
  int over_runs_ = 0;
  int preemptions_ = 0;
  int replaced_ = 0;
  int parted_ = 0;
  int copies_ = 0;
};

TEST(SchedulerSteps, GivesNoBlockThatAStepInFlightMayTouchToAnybodyElse) {
  int over_runs = 0;
  int preemptions = 0;
  int replaced = 0;
  int parted = 0;
  int copies = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Steps steps(seed);
    steps.Run(3000);
    if (testing::Test::HasFailure()) return;
    over_runs += steps.over_runs();
    preemptions += steps.preemptions();
    replaced += steps.replaced();
    parted += steps.parted();
    copies += steps.copies();
  }
  EXPECT_GT(over_runs, 500);
  EXPECT_GT(preemptions, 50);
  EXPECT_GT(replaced, 500);
  EXPECT_GT(parted, 500);
  EXPECT_GT(copies, 200);
}

}  // namespace
}  // namespace baton
