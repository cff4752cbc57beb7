#include "common/kv/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace baton {
namespace {

using Block = BlockPool::Block;
using Reservation = BlockPool::Reservation;

TEST(BlockPool, GivesOutEveryBlockOnceAndThenNothing) {
  BlockPool pool(5);
  std::vector<Block> blocks;
  std::set<int32_t> ids;
  for (int i = 0; i < 5; ++i) {
    blocks.push_back(*pool.TryAllocate());
    ids.insert(blocks.back().id());
  }
  EXPECT_THAT(ids, testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_FALSE(pool.TryAllocate().has_value());
  EXPECT_EQ(pool.used_blocks(), 5);
  blocks.clear();
  EXPECT_EQ(pool.used_blocks(), 0);
}

TEST(BlockPool, NeverHandsOutAReservedBlock) {
  BlockPool pool(4);
  Reservation reservation = *pool.TryReserve(3);
  std::optional<Block> only = pool.TryAllocate();
  EXPECT_TRUE(only.has_value());
  EXPECT_FALSE(pool.TryAllocate().has_value());
  EXPECT_FALSE(pool.TryReserve(1).has_value());
  EXPECT_TRUE(pool.TryReserve(0).has_value());
  std::vector<Block> taken;
  while (reservation.count() > 0) taken.push_back(reservation.Take());
  EXPECT_EQ(taken.size(), 3u);
  EXPECT_EQ(pool.used_blocks(), 4);
}

TEST(BlockPool, AReservationIsAllOrNothingAndGivenUpWithItsValue) {
  BlockPool pool(4);
  EXPECT_FALSE(pool.TryReserve(5).has_value());
  EXPECT_EQ(pool.reserved_blocks(), 0);
  {
    Reservation reservation = *pool.TryReserve(4);
    const Block taken = reservation.Take();
    EXPECT_EQ(pool.reserved_blocks(), 3);
  }
  EXPECT_EQ(pool.reserved_blocks(), 0);
  EXPECT_EQ(pool.available_blocks(), 4);
}

TEST(BlockPool, APartOfAReservationIsAReservationOfItsOwn) {
  BlockPool pool(3);
  auto whole = pool.TryReserve(3);
  {
    const BlockPool::Reservation part = whole->Split(2);
    EXPECT_EQ(whole->count(), 1);
    EXPECT_EQ(part.count(), 2);
    EXPECT_EQ(pool.reserved_blocks(), 3);
  }
  EXPECT_EQ(pool.reserved_blocks(), 1);
  pool.CheckInvariants();
}

TEST(BlockPool, ASharedBlockIsFreeWithItsLastReference) {
  BlockPool pool(1);
  Block first = *pool.TryAllocate();
  {
    Block second = first.Share();
    EXPECT_EQ(second.id(), first.id());
    EXPECT_EQ(pool.reference_count(first.id()), 2);
    first = Block();
    EXPECT_EQ(pool.free_blocks(), 0);
  }
  EXPECT_EQ(pool.free_blocks(), 1);
}

TEST(BlockPool, AssignmentGivesBackWhatWasHeldAtOnce) {
  BlockPool pool(2);
  Block first = *pool.TryAllocate();
  Block second = *pool.TryAllocate();
  first = std::move(second);
  EXPECT_EQ(pool.free_blocks(), 1);
  Reservation reservation = *pool.TryReserve(1);
  Reservation other = *pool.TryReserve(0);
  reservation = std::move(other);
  EXPECT_EQ(pool.reserved_blocks(), 0);
}

TEST(BlockPool, AReusedBlockHasANewGeneration) {
  BlockPool pool(1);
  std::optional<Block> block = pool.TryAllocate();
  const uint32_t first = pool.generation(block->id());
  block.reset();
  block = pool.TryAllocate();
  EXPECT_EQ(pool.generation(block->id()), first + 1);
  EXPECT_TRUE(pool.Lives(pool.Ref(block->id())));
  EXPECT_FALSE(pool.Lives({block->id(), first}));
}

// A pool under random operations, and beside it maps of references.
class PoolModel {
 public:
  void Operate() {
    switch (random_() % 9) {
      case 0:
        return Allocate();
      case 1:
        return Reserve();
      case 2:
        return TakeReserved();
      case 3:
        return DropReservation();
      case 4:
        return Share();
      case 5:
        for (int drops = 0; drops < 2 && !blocks_.empty(); ++drops)
          Drop(random_() % blocks_.size());
        return;
      case 6:
        return Keep();
      case 7:
        return StopKeeping();
      default:
        return TakeKept();
    }
  }

  void Check() {
    pool_.CheckInvariants();
    ASSERT_EQ(pool_.kept_blocks(), static_cast<int>(kept_order_.size()));
    ASSERT_EQ(pool_.reserved_blocks(), reserved_);
    ASSERT_EQ(pool_.used_blocks() + pool_.free_blocks(), kBlocks);
    for (const auto& [id, count] : references_) {
      ASSERT_EQ(pool_.reference_count(id), count);
      ASSERT_EQ(pool_.generation(id), generations_.at(id));
    }
  }

 private:
  static constexpr int kBlocks = 24;

  int Used() const {
    int used = 0;
    for (const auto& [id, count] : references_) used += count > 0;
    return used;
  }
  int Available() const { return kBlocks - Used() - reserved_; }
  Reservation& AnyReservation() { return reservations_[random_() % reservations_.size()]; }
  void Unlist(int32_t id) {
    kept_order_.erase(std::remove(kept_order_.begin(), kept_order_.end(), id), kept_order_.end());
  }

  void Allocate() {
    const int available = Available();
    std::optional<Block> block = pool_.TryAllocate();
    ASSERT_EQ(block.has_value(), available > 0);
    if (block) GiveOut(*std::move(block));
  }
  void Reserve() {
    const int count = static_cast<int>(random_() % 6);
    std::optional<Reservation> reservation = pool_.TryReserve(count);
    ASSERT_EQ(reservation.has_value(), count <= Available());
    if (!reservation) return;
    reserved_ += count;
    reservations_.push_back(*std::move(reservation));
  }
  void TakeReserved() {
    if (reservations_.empty()) return;
    Reservation& reservation = AnyReservation();
    if (reservation.count() == 0) return;
    --reserved_;
    GiveOut(reservation.Take());
  }
  void DropReservation() {
    if (reservations_.empty()) return;
    std::swap(AnyReservation(), reservations_.back());
    reserved_ -= reservations_.back().count();
    reservations_.pop_back();
  }
  void Share() {
    if (blocks_.empty()) return;
    blocks_.push_back(blocks_[random_() % blocks_.size()].Share());
    ++references_[blocks_.back().id()];
  }
  void Drop(size_t index) {
    std::swap(blocks_[index], blocks_.back());
    const int32_t id = blocks_.back().id();
    if (--references_[id] == 0 && keep_.contains(id)) kept_order_.push_back(id);
    blocks_.pop_back();
  }
  void Keep() {
    if (blocks_.empty()) return;
    keep_.insert(blocks_.back().id());
    pool_.Keep(blocks_.back().id());
  }
  void StopKeeping() {
    if (random_() % 4 != 0) return;
    const auto id = static_cast<int32_t>(random_() % kBlocks);
    keep_.erase(id);
    Unlist(id);
    pool_.StopKeeping(id);
  }
  void TakeKept() {
    if (reservations_.empty() || kept_order_.empty()) return;
    Reservation& reservation = AnyReservation();
    if (reservation.count() == 0) return;
    const int32_t id = kept_order_[random_() % kept_order_.size()];
    blocks_.push_back(reservation.TakeKept(id));
    references_[id] = 1;
    Unlist(id);
    --reserved_;
  }
  void GiveOut(Block block) {
    ASSERT_EQ(references_[block.id()], 0) << "block " << block.id() << " has an owner";
    if (keep_.erase(block.id()) > 0) {
      ASSERT_EQ(kept_order_.front(), block.id()) << "not the least recently used";
      Unlist(block.id());
      ASSERT_EQ(Used() + 1 + static_cast<int>(kept_order_.size()), kBlocks) << "others were free";
    }
    references_[block.id()] = 1;
    ++generations_[block.id()];
    blocks_.push_back(std::move(block));
  }

  std::mt19937 random_{7};
  BlockPool pool_{kBlocks};
  std::vector<Block> blocks_;
  std::vector<Reservation> reservations_;
  std::map<int32_t, int> references_;
  std::map<int32_t, uint32_t> generations_;
  int reserved_ = 0;
  std::set<int32_t> keep_;           // whenever they are free
  std::vector<int32_t> kept_order_;  // free ones of them, the least recently used first
};

// Every count agrees after each of 100,000 operations.
TEST(BlockPool, AgreesWithAPlainModel) {
  PoolModel model;
  for (int step = 0; step < 100000; ++step) {
    model.Operate();
    model.Check();
    if (HasFatalFailure()) return;
  }
}

TEST(BlockPoolDeathTest, TakingMoreThanWasReservedIsABug) {
  BlockPool pool(2);
  Reservation reservation = *pool.TryReserve(0);
  EXPECT_DEATH(reservation.Take(), "nothing is reserved");
}

}  // namespace
}  // namespace baton
