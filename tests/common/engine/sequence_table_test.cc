#include "common/engine/sequence_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/common/engine/test_sequences.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;
using State = Sequence::State;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kTableBlock = 16;

class SequenceTableTest : public testing::Test {
 protected:
  Sequence& Add(SequenceId id, Mode mode, int tokens, int choices = 1) {
    SequenceRequest request;
    request.mode = mode;
    request.token_ids.assign(static_cast<size_t>(tokens), 1);
    request.prompt_length = tokens;
    request.choices = choices;
    return table_.Add(id, TestSequences::Trust(std::move(request)));
  }
  Sequence& Running(SequenceId id, int tokens, int choices = 1) {
    Sequence& sequence = Add(id, Mode::kLocal, tokens, choices);
    EXPECT_TRUE(ledger_.TryStart(sequence));
    table_.Admit(sequence);
    return sequence;
  }
  // Launches a step that computes all tokens of the sequence.
  Schedule Launch(Sequence& sequence) {
    Schedule schedule;
    const int count = sequence.uncomputed_tokens();
    schedule.batch.push_back({&sequence, sequence.kv.computed_tokens, count, true});
    table_.StepEnqueued(schedule);
    return schedule;
  }

  BlockPool pool_{12};
  StepsInFlight steps_;
  BlockLedger ledger_{{.block_size = kTableBlock}, pool_, nullptr, steps_};
  SequenceTable table_{1000, ledger_, steps_};
};

TEST_F(SequenceTableTest, KeepsTheLinesOfWaitingAndRunningByArrival) {
  Sequence& first = Add(7, Mode::kLocal, 20);
  Sequence& second = Add(3, Mode::kReceive, 20);
  Sequence& third = Add(5, Mode::kLocal, 20);
  EXPECT_THAT(table_.waiting(), ElementsAre(&first, &second, &third));
  for (Sequence* sequence : {&third, &second, &first}) {
    ASSERT_TRUE(ledger_.TryStart(*sequence));
    EXPECT_TRUE(table_.Admit(*sequence)) << "for the first time";
  }
  EXPECT_THAT(table_.waiting(), IsEmpty());
  EXPECT_THAT(table_.running(), ElementsAre(&first, &third));
  EXPECT_EQ(second.state(), State::kReserved);
  EXPECT_EQ(first.kv.prefill_tokens, 20);
  table_.Preempt(first);
  EXPECT_THAT(table_.waiting(), ElementsAre(&first));
  EXPECT_THAT(table_.running(), ElementsAre(&third));
  EXPECT_EQ(first.preemptions, 1);
  EXPECT_EQ(first.blocks.count(), 0);
  ASSERT_TRUE(ledger_.TryStart(first));
  EXPECT_FALSE(table_.Admit(first)) << "it was told already";
}

TEST_F(SequenceTableTest, FindsALivingSequenceAlone) {
  Sequence& sequence = Add(7, Mode::kLocal, 20);
  EXPECT_EQ(table_.Find(7), &sequence);
  EXPECT_EQ(table_.Find(8), nullptr);
  EXPECT_DEATH(Add(7, Mode::kLocal, 20), "used twice");
  table_.Remove(sequence);
  EXPECT_EQ(table_.Find(7), nullptr);
  EXPECT_THAT(table_.Choices(7), IsEmpty());
  EXPECT_THAT(table_.waiting(), IsEmpty());
}

TEST_F(SequenceTableTest, OneThatAStepHasStaysUntilTheStepIsDone) {
  Sequence& sequence = Running(7, 20);
  Launch(sequence);
  EXPECT_TRUE(table_.InFlight(sequence));
  EXPECT_DEATH(table_.Preempt(sequence), "no step has it");
  table_.Remove(sequence);
  EXPECT_EQ(table_.Find(7), nullptr);
  EXPECT_EQ(sequence.state(), State::kEnded);
  EXPECT_EQ(pool_.used_blocks(), 2);
  EXPECT_EQ(pool_.reserved_blocks(), 0);
  EXPECT_EQ(table_.StepDone().size(), 1u);
  EXPECT_EQ(pool_.used_blocks(), 0);
}

TEST_F(SequenceTableTest, TheStepThatSamplesTheFirstTokensLetsTheChoicesPart) {
  Sequence& first = Running(7, 20, /*choices=*/3);
  const Schedule schedule = Launch(first);
  const std::vector<Sequence*>& parted = schedule.batch[0].parted;
  ASSERT_EQ(parted.size(), 2u);
  EXPECT_THAT(table_.Choices(7), ElementsAre(&first, parted[0], parted[1]));
  EXPECT_THAT(table_.running(), ElementsAre(&first, parted[0], parted[1]));
  EXPECT_THAT(first.choices, ElementsAre(0));
  for (const Sequence* sequence : table_.Choices(7)) {
    EXPECT_EQ(sequence->tokens.pending_outputs, 1);
    EXPECT_EQ(sequence->kv.computed_tokens, 20);
    EXPECT_TRUE(table_.InFlight(*sequence));
    EXPECT_EQ(sequence->blocks.reservation.count(), 1);
  }
  EXPECT_EQ(pool_.used_blocks(), 1 + 3);
  table_.StepDone();
  table_.Remove(first);
  EXPECT_EQ(table_.Find(7), parted[0]);
}

TEST_F(SequenceTableTest, AChoiceThatIsDroppedBeforeThatIsNotComputed) {
  Sequence& sequence = Running(7, 20, /*choices=*/3);
  table_.DropChoice(sequence, 1);
  EXPECT_THAT(sequence.choices, ElementsAre(0, 2));
  EXPECT_EQ(pool_.reserved_blocks(), 3);
  table_.DropChoice(sequence, 0);
  EXPECT_EQ(sequence.choice(), 2);
  EXPECT_DEATH(table_.DropChoice(sequence, 2), "the last choice");
}

TEST_F(SequenceTableTest, ACommitGivesEachChoiceItsFirstTokenToComputeNext) {
  Sequence& sequence = Add(7, Mode::kReceive, 32, /*choices=*/2);
  EXPECT_DEATH(table_.OpenReceive(sequence, ""), "without a reservation");
  ASSERT_TRUE(ledger_.TryStart(sequence));
  table_.Admit(sequence);
  table_.OpenReceive(sequence, "");
  EXPECT_EQ(sequence.state(), State::kReceiving);
  const std::vector<Sequence*> choices = table_.Commit(sequence, {5, 6});
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0], &sequence);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(choices[i]->state(), State::kRunning);
    EXPECT_EQ(choices[i]->tokens.ids.back(), static_cast<int32_t>(5 + i));
    EXPECT_EQ(choices[i]->uncomputed_tokens(), 1);
    EXPECT_EQ(choices[i]->kv.prefill_tokens, 32);
    EXPECT_FALSE(choices[i]->awaits_kv());
  }
  EXPECT_THAT(table_.running(), ElementsAre(choices[0], choices[1]));
}

TEST_F(SequenceTableTest, OneThatIsHeldLeavesTheBatchAndKeepsItsBlocks) {
  Sequence& sequence = Running(7, 20);
  table_.Hold(sequence);
  EXPECT_THAT(table_.running(), IsEmpty());
  EXPECT_EQ(sequence.blocks.count(), 2);
  EXPECT_EQ(table_.Find(7), &sequence);
}

}  // namespace
}  // namespace baton
