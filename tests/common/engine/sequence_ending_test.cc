#include "common/engine/sequence_ending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <variant>
#include <vector>

#include "tests/common/engine/test_sequences.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;
using testing::ElementsAre;

class SequenceEndingTest : public testing::Test {
 protected:
  // A sequence that runs; what it is told goes to events_.
  Sequence& Running(Mode mode, int choices = 1) {
    SequenceRequest request;
    request.mode = mode;
    request.token_ids.assign(20, 1);
    request.prompt_length = 20;
    request.choices = choices;
    request.sampling.max_tokens = 3;
    request.on_event = [this](const SequenceEvent& event) { events_.push_back(event); };
    EXPECT_TRUE(mailbox_.Submit({kId, TestSequences::Trust({}), absl::UnixEpoch()}).ok());
    mailbox_.Take();
    Sequence& sequence = sequences_.Add(kId, TestSequences::Trust(std::move(request)));
    EXPECT_TRUE(ledger_.TryStart(sequence));
    sequences_.Admit(sequence);
    return sequence;
  }
  // Whether the mailbox still takes what is asked of the sequence.
  bool Lives() {
    mailbox_.SetPaused(kId, true);
    return !mailbox_.Take().controls.empty();
  }

  static constexpr SequenceId kId = 7;
  BlockPool pool_{8};
  PrefixCache cache_{"model", {.block_size = 16}, pool_};
  StepsInFlight steps_;
  BlockLedger ledger_{{.block_size = 16}, pool_, &cache_, steps_};
  SequenceTable sequences_{100, ledger_, steps_};
  Mailbox mailbox_{10};
  SequenceEnding ending_{
      {.end_of_generation_ids = {2}, .max_model_len = 22}, sequences_, ledger_, mailbox_};
  std::vector<SequenceEvent> events_;
};

TEST_F(SequenceEndingTest, KnowsTheLastTokenByItsIdAndByTheLengths) {
  const Sequence& sequence = Running(Mode::kLocal);
  const auto reason = [&](int index, int32_t id) {
    return ending_.ReasonOf(sequence, {.output_index = index, .token_id = id});
  };
  EXPECT_EQ(reason(0, 5), FinishReason::kNone);
  EXPECT_EQ(reason(0, 2), FinishReason::kStop);
  EXPECT_EQ(reason(1, 5), FinishReason::kLength) << "max_model_len";
  EXPECT_EQ(reason(2, 5), FinishReason::kLength) << "max_tokens";
}

TEST_F(SequenceEndingTest, AFinishedSequenceIsGoneWhenItIsTold) {
  Sequence& sequence = Running(Mode::kLocal);
  sequence.preemptions = 3;
  ending_.Finish(sequence);
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_EQ(std::get<SequenceFinished>(events_[0]).preemptions, 3);
  EXPECT_EQ(sequences_.Find(kId), nullptr);
  EXPECT_EQ(pool_.used_blocks(), 0);
  EXPECT_FALSE(Lives());
}

TEST_F(SequenceEndingTest, OneWhosePeerReadsItsBlocksIsHeldUntilItIsReleased) {
  Sequence& sequence = Running(Mode::kPrefillOnly, /*choices=*/2);
  ending_.Finish(sequence);
  EXPECT_EQ(sequence.state(), Sequence::State::kHeld);
  EXPECT_EQ(pool_.used_blocks(), 2);
  EXPECT_TRUE(Lives());
  ending_.Release(sequence);
  EXPECT_EQ(pool_.used_blocks(), 0);
  EXPECT_FALSE(Lives());
  ASSERT_EQ(events_.size(), 2u) << "it stayed one";
  EXPECT_TRUE(std::holds_alternative<SequenceFinished>(events_[0]));
  EXPECT_TRUE(std::holds_alternative<SequenceReleased>(events_[1]));
}

TEST_F(SequenceEndingTest, WhatAFailedSequenceComputedServesNobody) {
  Sequence& sequence = Running(Mode::kLocal);
  ledger_.Computed(sequence, 20);
  const std::vector<int32_t> token_ids(40, 1);
  EXPECT_EQ(cache_.Find(token_ids, "", {.computes = true}).size(), 1u);
  ending_.Fail(sequence, absl::InternalError("why"));
  EXPECT_EQ(cache_.Find(token_ids, "", {.computes = true}).size(), 0u);
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_EQ(std::get<SequenceFailed>(events_[0]).status.message(), "why");
  EXPECT_EQ(pool_.used_blocks(), 0);
}

TEST_F(SequenceEndingTest, EachChoiceHearsOfTheReleaseOnce) {
  Sequence& sequence = Running(Mode::kLocal, /*choices=*/3);
  ending_.ReleaseChoice(sequence, 1);
  EXPECT_TRUE(Lives());
  ending_.Release(sequence);
  std::vector<int> choices;
  for (const SequenceEvent& event : events_) {
    choices.push_back(std::get<SequenceReleased>(event).timings.choice);
  }
  EXPECT_THAT(choices, ElementsAre(1, 0, 2));
  EXPECT_FALSE(Lives());
}

}  // namespace
}  // namespace baton
