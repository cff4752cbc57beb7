#include "common/kv/retained_prefixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common/kv/layout.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Block = BlockPool::Block;
using Match = RetainedPrefixes::Match;

constexpr int kBlockSize = 32;
constexpr KvNeed kComputes{.computes = true};

std::vector<int32_t> Tokens(int count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

class RetainedPrefixesTest : public testing::Test {
 protected:
  void Make(int blocks, RetainedPrefixes::Bounds bounds = {}) {
    retained_.reset();
    pool_ = std::make_unique<BlockPool>(blocks);
    retained_ =
        std::make_unique<RetainedPrefixes>(KvLayout{.block_size = kBlockSize}, bounds, *pool_);
  }
  // An attempt that received `tokens` (whole pages) and broke, the first blocks being others' too.
  std::vector<int32_t> Leave(const std::string& request, int tokens, size_t first_block = 0,
                             const std::string& numerics = "") {
    std::vector<Block> blocks;
    std::vector<int32_t> ids;
    for (int first = 0; first < tokens + kBlockSize; first += kBlockSize) {
      blocks.push_back(*pool_->TryAllocate());
      ids.push_back(blocks.back().id());
    }
    retained_->Retain(request, {Tokens(tokens), numerics, first_block}, blocks, now_);
    while (!blocks.empty()) blocks.pop_back();
    pool_->CheckInvariants();
    return ids;
  }
  Match Find(const std::string& request, int tokens, size_t shared_blocks = 0) const {
    return retained_->Find(request, "", Tokens(tokens), shared_blocks, kComputes);
  }

  absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<RetainedPrefixes> retained_;
};

TEST_F(RetainedPrefixesTest, GivesTheNextAttemptItsWholePagesAndNeverTheLastToken) {
  Make(10);
  const std::vector<int32_t> ids = Leave("a", 80);
  EXPECT_EQ(pool_->used_blocks(), 0);
  EXPECT_EQ(pool_->kept_blocks(), 3) << "the fourth held no page";
  Match match = Find("a", 100);
  EXPECT_EQ(match.tokens, 80);
  EXPECT_THAT(match.blocks, ElementsAre(ids[0], ids[1], ids[2]));
  EXPECT_EQ(Find("a", 81).tokens, 80);
  match = Find("a", 80);
  EXPECT_EQ(match.tokens, 64);
  EXPECT_THAT(match.blocks, ElementsAre(ids[0], ids[1]));
  EXPECT_EQ(Find("a", 79).tokens, 64);
  EXPECT_EQ(Find("a", 17).tokens, 16);
  EXPECT_EQ(Find("a", 16).tokens, 0);
  EXPECT_EQ(Find("a", 0).tokens, 0);
}

TEST_F(RetainedPrefixesTest, ServesNobodyElseAndNoOtherTokensOrNumerics) {
  Make(10);
  Leave("a", 64);
  EXPECT_EQ(Find("b", 100).tokens, 0);
  EXPECT_EQ(Find("", 100).tokens, 0);
  EXPECT_EQ(retained_->Find("a", "other", Tokens(100), 0, kComputes).tokens, 0);
  std::vector<int32_t> tokens = Tokens(100);
  tokens[50] = 1;
  EXPECT_EQ(retained_->Find("a", "", tokens, 0, kComputes).tokens, 48)
      << "the pages before it still agree";
  tokens[0] = 1;
  EXPECT_EQ(retained_->Find("a", "", tokens, 0, kComputes).tokens, 0);
}

TEST_F(RetainedPrefixesTest, GoesOnBehindWhatIsSharedAndOnlyBehindThat) {
  Make(10);
  const std::vector<int32_t> ids = Leave("a", 112, 2);
  EXPECT_EQ(Find("a", 200, 1).tokens, 0) << "the second block is gone";
  Match match = Find("a", 200, 2);
  EXPECT_EQ(match.tokens, 112);
  EXPECT_THAT(match.blocks, ElementsAre(ids[2], ids[3]));
  match = Find("a", 200, 3);
  EXPECT_EQ(match.tokens, 112);
  EXPECT_THAT(match.blocks, ElementsAre(ids[3]));
  match = Find("a", 200, 4);
  EXPECT_EQ(match.tokens, 0);
  EXPECT_THAT(match.blocks, IsEmpty());
}

TEST_F(RetainedPrefixesTest, WhoeverNeedsBlocksGetsThemTheLastOfTheAttemptFirst) {
  Make(6);
  const std::vector<int32_t> ids = Leave("a", 128);  // and a fifth block that held nothing
  std::vector<Block> taken;
  taken.push_back(*pool_->TryAllocate());
  taken.push_back(*pool_->TryAllocate());
  EXPECT_EQ(Find("a", 200).tokens, 128) << "there were others";
  taken.push_back(*pool_->TryAllocate());
  EXPECT_EQ(taken.back().id(), ids[3]);
  EXPECT_EQ(Find("a", 200).tokens, 96);
  auto reservation = pool_->TryReserve(3);
  ASSERT_TRUE(reservation.has_value());
  while (reservation->count() > 0) taken.push_back(reservation->Take());
  EXPECT_EQ(Find("a", 200).tokens, 0);
  taken.clear();
  EXPECT_EQ(Find("a", 200).tokens, 0) << "they hold others' tokens now";
  retained_->Forget("a");
  pool_->CheckInvariants();
  EXPECT_EQ(pool_->kept_blocks(), 0);
}

TEST_F(RetainedPrefixesTest, WhatTheNextAttemptTookIsItsOwnAndTheRestIsGivenUp) {
  Make(6);
  Leave("a", 96);
  auto reservation = pool_->TryReserve(6);
  const Match match = Find("a", 64);
  std::vector<Block> blocks;
  for (const int32_t block : match.blocks) blocks.push_back(reservation->TakeKept(block));
  retained_->Forget("a");
  EXPECT_EQ(blocks.size(), 2u);
  EXPECT_EQ(pool_->kept_blocks(), 0);
  EXPECT_EQ(Find("a", 200).tokens, 0);
  blocks.clear();
  EXPECT_EQ(pool_->kept_blocks(), 0) << "nothing is kept for an attempt that was served";
  pool_->CheckInvariants();
}

TEST_F(RetainedPrefixesTest, ALaterAttemptTakesThePlaceOfTheOneBefore) {
  Make(10);
  Leave("a", 64);
  const std::vector<int32_t> ids = Leave("a", 32);
  EXPECT_EQ(retained_->size(), 1u);
  EXPECT_EQ(pool_->kept_blocks(), 1);
  EXPECT_THAT(Find("a", 200).blocks, ElementsAre(ids[0]));
}

TEST_F(RetainedPrefixesTest, EndsWithItsTimeWithoutAnythingNew) {
  Make(10, {.lifetime = absl::Seconds(30)});
  EXPECT_EQ(retained_->NextExpiry(), absl::InfiniteFuture());
  Leave("a", 32);
  now_ += absl::Seconds(20);
  Leave("b", 32);
  EXPECT_EQ(retained_->NextExpiry(), absl::UnixEpoch() + absl::Seconds(30));
  retained_->ForgetExpired(now_ + absl::Seconds(9));
  EXPECT_EQ(retained_->size(), 2u);
  retained_->ForgetExpired(now_ + absl::Seconds(10));
  EXPECT_EQ(Find("a", 200).tokens, 0);
  EXPECT_EQ(Find("b", 200).tokens, 32);
  EXPECT_EQ(pool_->kept_blocks(), 1);
  retained_->ForgetExpired(retained_->NextExpiry());
  EXPECT_EQ(pool_->kept_blocks(), 0);
  pool_->CheckInvariants();
}

TEST_F(RetainedPrefixesTest, KeepsNoMoreThanItsBoundTheOldestGoesFirst) {
  Make(10, {.max_prefixes = 2});
  for (const char* request : {"c", "a", "b"}) {
    Leave(request, 32);
    now_ += absl::Seconds(1);
  }
  EXPECT_EQ(retained_->size(), 2u);
  EXPECT_EQ(pool_->kept_blocks(), 2);
  EXPECT_EQ(Find("c", 200).tokens, 0);
  EXPECT_EQ(Find("a", 200).tokens, 32);
  EXPECT_EQ(Find("b", 200).tokens, 32);
}

TEST_F(RetainedPrefixesTest, AnAttemptThatHadNothingOfItsOwnLeavesNothing) {
  Make(10);
  Leave("a", 64, 2);
  Leave("b", 0);
  EXPECT_EQ(retained_->size(), 0u);
  EXPECT_EQ(pool_->kept_blocks(), 0);
}

}  // namespace
}  // namespace baton
