#include "common/engine/block_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;
using State = Sequence::State;
using testing::ElementsAre;

constexpr int kLedgerBlock = 16;

class BlockLedgerTest : public testing::Test {
 protected:
  void TearDown() override { pool_.CheckInvariants(); }

  std::unique_ptr<Sequence> Make(Mode mode, int tokens, int choices = 1,
                                 const std::string& resume_key = "") {
    SequenceRequest request;
    request.mode = mode;
    request.token_ids.assign(static_cast<size_t>(tokens), 1);
    request.prompt_length = tokens;
    request.choices = choices;
    request.resume_key = resume_key;
    return std::make_unique<Sequence>(next_id_++, 0, std::move(request), 1000);
  }
  // A sequence whose first `computed` tokens are computed and in the prefix cache, all its own.
  std::unique_ptr<Sequence> Computed(int tokens, int computed) {
    auto sequence = Make(Mode::kLocal, tokens);
    EXPECT_TRUE(ledger_.TryStart(*sequence));
    ledger_.Computed(*sequence, computed);
    return sequence;
  }

  BlockPool pool_{12};
  PrefixCache cache_{"model", {.block_size = kLedgerBlock}, pool_};
  StepsInFlight steps_;
  BlockLedger ledger_{{.block_size = kLedgerBlock}, pool_, &cache_, steps_};
  SequenceId next_id_ = 1;
};

TEST_F(BlockLedgerTest, ASequenceStartsWithItsTokensBlocksAndHeadRoomWhereItDecodes) {
  EXPECT_EQ(ledger_.BlocksToStart(*Make(Mode::kPrefillOnly, 33)), 3);
  EXPECT_EQ(ledger_.BlocksToStart(*Make(Mode::kLocal, 33)), 3 + 1);
  EXPECT_EQ(ledger_.BlocksToStart(*Make(Mode::kLocal, 33, /*choices=*/3)), 3 + 2 + 3);
  EXPECT_EQ(ledger_.BlocksToStart(*Make(Mode::kLocal, 32, /*choices=*/3)), 2 + 3)
      << "no block is copied";
  EXPECT_EQ(ledger_.BlocksToStart(*Make(Mode::kLocal, 180)), 12) << "no more than there are";
}

TEST_F(BlockLedgerTest, AStartTakesAllOrNothing) {
  const auto first = Make(Mode::kLocal, 100);
  ASSERT_TRUE(ledger_.TryStart(*first));
  EXPECT_EQ(first->blocks.count(), 7);
  EXPECT_TRUE(ledger_.HasSpans(*first));
  EXPECT_EQ(pool_.reserved_blocks(), 1);
  const auto second = Make(Mode::kLocal, 64);
  EXPECT_FALSE(ledger_.TryStart(*second));
  EXPECT_EQ(second->blocks.count(), 0);
  EXPECT_EQ(pool_.reserved_blocks(), 1);
}

TEST_F(BlockLedgerTest, OneThatAwaitsItsKvOnlyReservesUntilItIsOpened) {
  const auto sequence = Make(Mode::kReceive, 40);
  ASSERT_TRUE(ledger_.TryStart(*sequence));
  EXPECT_EQ(sequence->blocks.count(), 0);
  EXPECT_EQ(pool_.reserved_blocks(), 4);
  ledger_.Open(*sequence, "other");
  EXPECT_EQ(sequence->blocks.count(), 3);
  EXPECT_EQ(pool_.reserved_blocks(), 1);
  EXPECT_EQ(sequence->kv.numerics, "other");
  ledger_.Commit(*sequence);
}

TEST_F(BlockLedgerTest, OneThatBeginsAlikeSharesTheBlocksThatAreComputed) {
  const auto first = Computed(50, 50);
  const auto second = Make(Mode::kLocal, 50);
  ASSERT_TRUE(ledger_.TryStart(*second));
  EXPECT_EQ(second->kv.cached_tokens, 48);
  EXPECT_EQ(second->kv.computed_tokens, 48);
  EXPECT_TRUE(std::equal(first->blocks.table.begin(), first->blocks.table.begin() + 3,
                         second->blocks.table.begin()));
  EXPECT_NE(first->blocks.table[3], second->blocks.table[3]);
  EXPECT_EQ(pool_.used_blocks(), 5);
  EXPECT_EQ(pool_.reserved_blocks(), 2) << "nothing is reserved for what is shared";
}

TEST_F(BlockLedgerTest, ForgottenBlocksAreNotFound) {
  const auto first = Computed(50, 50);
  ledger_.ForgetBlocks(*first);
  const auto second = Make(Mode::kLocal, 50);
  ASSERT_TRUE(ledger_.TryStart(*second));
  EXPECT_EQ(second->kv.cached_tokens, 0);
}

TEST_F(BlockLedgerTest, WhoComputesWhatIsHeldAlreadyGoesOnWithThatAndStepsInFlightKeepHisOwn) {
  const auto first = Make(Mode::kLocal, 20);
  const auto second = Make(Mode::kLocal, 20);
  ASSERT_TRUE(ledger_.TryStart(*first) && ledger_.TryStart(*second));
  ledger_.Computed(*first, 20);
  second->last_step = steps_.Enqueued();
  const int32_t own = second->blocks.table[0];
  ledger_.Computed(*second, 20);
  EXPECT_EQ(second->blocks.table[0], first->blocks.table[0]);
  EXPECT_EQ(second->blocks.held[0].id(), first->blocks.table[0]);
  EXPECT_EQ(pool_.reference_count(own), 1) << "a step in flight may touch it";
  steps_.Done();
  EXPECT_EQ(pool_.reference_count(own), 0);
}

TEST_F(BlockLedgerTest, TakesFurtherBlocksFromTheReservationAndThenFromThePool) {
  const auto sequence = Make(Mode::kLocal, 16);
  ASSERT_TRUE(ledger_.TryStart(*sequence));
  const auto rest = pool_.TryReserve(9);
  const auto add_block = [&] {
    sequence->kv.computed_tokens = sequence->tokens.count();
    for (int i = 0; i < 16; ++i) EXPECT_TRUE(sequence->tokens.AddOutput(1).ok());
    return ledger_.TryTakeForNextToken(*sequence);
  };
  EXPECT_TRUE(add_block());
  EXPECT_EQ(pool_.reserved_blocks(), 9);
  EXPECT_EQ(sequence->blocks.reservation.count(), 0);
  EXPECT_TRUE(add_block());
  EXPECT_TRUE(ledger_.HasSpans(*sequence));
  EXPECT_EQ(ledger_.LackingBlocks(*sequence), 0);
  EXPECT_FALSE(add_block()) << "the rest is reserved";
  EXPECT_EQ(ledger_.LackingBlocks(*sequence), 1);
}

TEST_F(BlockLedgerTest, AForkSharesFullBlocksAndCopiesTheLastOneBehindTheStepThatWritesIt) {
  const auto first = Make(Mode::kLocal, 20, /*choices=*/2);
  ASSERT_TRUE(ledger_.TryStart(*first));
  EXPECT_EQ(pool_.reserved_blocks(), 3);
  const auto other = first->Fork(1);
  ledger_.Share(*first, *other);
  EXPECT_EQ(other->blocks.table[0], first->blocks.table[0]);
  EXPECT_NE(other->blocks.table[1], first->blocks.table[1]);
  EXPECT_FALSE(other->blocks.copied_from.empty());
  EXPECT_EQ(other->blocks.copied_from[0].id(), first->blocks.table[1]);
  ledger_.SplitHeadRoom(*first, {other.get()});
  EXPECT_EQ(first->blocks.reservation.count(), 1);
  EXPECT_EQ(other->blocks.reservation.count(), 1);
  ledger_.Copied(*other, steps_.Enqueued());
  EXPECT_TRUE(other->blocks.copied_from.empty());
  EXPECT_EQ(pool_.reference_count(first->blocks.table[1]), 2) << "the step copies it";
  steps_.Done();
  EXPECT_EQ(pool_.reference_count(first->blocks.table[1]), 1);
}

TEST_F(BlockLedgerTest, GivesUpWhatALostChoiceWouldHaveNeeded) {
  const auto sequence = Make(Mode::kLocal, 20, /*choices=*/3);
  ASSERT_TRUE(ledger_.TryStart(*sequence));
  const int before = ledger_.BlocksToStart(*sequence);
  sequence->choices.pop_back();
  ledger_.GiveUpSince(*sequence, before);
  EXPECT_EQ(pool_.reserved_blocks(), 3);
}

TEST_F(BlockLedgerTest, WhatIsGivenBackHasToBeComputedAnew) {
  const auto sequence = Make(Mode::kReceive, 40);
  ASSERT_TRUE(ledger_.TryStart(*sequence));
  ledger_.Open(*sequence, "other");
  sequence->kv.computed_tokens = 40;
  ledger_.GiveBack(*sequence);
  EXPECT_EQ(sequence->kv.computed_tokens, 0);
  EXPECT_EQ(sequence->kv.numerics, "");
  EXPECT_EQ(pool_.available_blocks(), 12);
}

TEST_F(BlockLedgerTest, WhatABrokenAttemptReceivedServesTheNextOfItsNameAlone) {
  const auto broken = Make(Mode::kReceive, 60, 1, "request");
  ASSERT_TRUE(ledger_.TryStart(*broken));
  ledger_.Retain(*broken, 60, absl::UnixEpoch());
  EXPECT_EQ(ledger_.NextExpiry(), absl::InfiniteFuture()) << "it was not open";
  ledger_.Open(*broken, "");
  broken->Enter(State::kReserved);
  broken->Enter(State::kReceiving);
  ledger_.Retain(*broken, 40, absl::UnixEpoch());
  EXPECT_LT(ledger_.NextExpiry(), absl::InfiniteFuture());
  const std::vector<int32_t> table = broken->blocks.table;
  broken->blocks.GiveBack();
  const auto stranger = Make(Mode::kLocal, 60, 1, "another");
  ASSERT_TRUE(ledger_.TryStart(*stranger));
  EXPECT_EQ(stranger->kv.cached_tokens, 0);
  const auto next = Make(Mode::kLocal, 60, 1, "request");
  ASSERT_TRUE(ledger_.TryStart(*next));
  EXPECT_EQ(next->kv.cached_tokens, 32) << "whole pages";
  EXPECT_FALSE(next->kv.vouched);
  EXPECT_EQ(next->blocks.table[1], table[1]);
  ledger_.Computed(*next, 60);
  EXPECT_EQ(next->blocks.entered, 0u) << "no commit has vouched for its beginning";
}

TEST_F(BlockLedgerTest, ABlockKeepsItsSourceForOneLifeAndHasNoneWhereTwoWroteIt) {
  BlockLedger ledger({.block_size = 32}, pool_, nullptr, steps_);
  const auto open = [&](const char* source) {
    auto sequence = Make(Mode::kReceive, 60, 1, "request");
    sequence->request.kv_source = source;
    EXPECT_TRUE(ledger.TryStart(*sequence));
    ledger.Open(*sequence, "");
    sequence->Enter(State::kReserved);
    sequence->Enter(State::kReceiving);
    return sequence;
  };
  const auto sources = [&](const Sequence& sequence) {
    std::vector<std::string> names;
    for (const auto& block : sequence.blocks.held) names.push_back(ledger.sources().Of(block));
    return names;
  };
  for (const char* next : {"a", "b"}) {
    const auto broken = open("a");
    EXPECT_THAT(sources(*broken), ElementsAre("a", "a"));
    ledger.Retain(*broken, 48, absl::UnixEpoch());
    broken->blocks.GiveBack();
    const auto resumed = open(next);
    ASSERT_EQ(resumed->kv.cached_tokens, 48);
    EXPECT_THAT(sources(*resumed), ElementsAre("a", next == std::string("a") ? "a" : ""));
  }
  const auto local = Make(Mode::kLocal, 300);
  ASSERT_TRUE(ledger.TryStart(*local));
  EXPECT_THAT(sources(*local), testing::Each(""));
}

TEST_F(BlockLedgerTest, ABlockThatIsComputedOnHereIsNotFromItsPeerAlone) {
  const auto sequence = Make(Mode::kReceive, 40);
  sequence->request.kv_source = "a";
  ASSERT_TRUE(ledger_.TryStart(*sequence));
  ledger_.Open(*sequence, "");
  ledger_.Commit(*sequence);
  ledger_.Computed(*sequence, 40);
  const auto source = [&](size_t block) {
    return ledger_.sources().Of(sequence->blocks.held[block]);
  };
  EXPECT_EQ(source(2), "a") << "as long as nobody else finds it";
  sequence->tokens.ids.resize(48, 1);
  ledger_.Computed(*sequence, 48);
  EXPECT_EQ(source(1), "a");
  EXPECT_EQ(source(2), "");
}

TEST_F(BlockLedgerTest, AForksCopyOfTheLastBlockIsFromWhoeverWroteThatOne) {
  const auto first = Make(Mode::kReceive, 20, /*choices=*/2);
  first->request.kv_source = "a";
  ASSERT_TRUE(ledger_.TryStart(*first));
  ledger_.Open(*first, "");
  const auto other = first->Fork(1);
  ledger_.Share(*first, *other);
  EXPECT_EQ(ledger_.sources().Of(other->blocks.held.back()), "a");
}

TEST_F(BlockLedgerTest, WhatIsForgottenServesNobody) {
  auto computed = Computed(40, 32);
  computed.reset();
  const auto broken = Make(Mode::kReceive, 60, 1, "request");
  ASSERT_TRUE(ledger_.TryStart(*broken));
  ledger_.Open(*broken, "");
  broken->Enter(State::kReserved);
  broken->Enter(State::kReceiving);
  ledger_.Retain(*broken, 48, absl::UnixEpoch());
  broken->blocks.GiveBack();
  ledger_.ForgetAllHeld();
  const auto next = Make(Mode::kLocal, 60, 1, "request");
  ASSERT_TRUE(ledger_.TryStart(*next));
  EXPECT_EQ(next->kv.cached_tokens, 0);
  EXPECT_EQ(ledger_.NextExpiry(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace baton
