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

// 100,000 random operations against maps of references: every count agrees after each.
TEST(BlockPool, AgreesWithAPlainModel) {
  constexpr int kBlocks = 24;
  std::mt19937 random(7);
  BlockPool pool(kBlocks);
  std::vector<Block> blocks;
  std::vector<Reservation> reservations;
  std::map<int32_t, int> references;
  std::map<int32_t, uint32_t> generations;
  int reserved = 0;
  std::set<int32_t> keep;           // whenever they are free
  std::vector<int32_t> kept_order;  // free ones of them, the least recently used first
  const auto unlist = [&](int32_t id) {
    kept_order.erase(std::remove(kept_order.begin(), kept_order.end(), id), kept_order.end());
  };
  const auto drop = [&](size_t index) {
    std::swap(blocks[index], blocks.back());
    const int32_t id = blocks.back().id();
    if (--references[id] == 0 && keep.contains(id)) kept_order.push_back(id);
    blocks.pop_back();
  };
  const auto give_out = [&](Block block) {
    ASSERT_EQ(references[block.id()], 0) << "block " << block.id() << " has an owner";
    if (keep.erase(block.id()) > 0) {
      ASSERT_EQ(kept_order.front(), block.id()) << "not the least recently used";
      unlist(block.id());
      int used = 1;
      for (const auto& [id, count] : references) used += count > 0;
      ASSERT_EQ(used + static_cast<int>(kept_order.size()), kBlocks) << "others were free";
    }
    references[block.id()] = 1;
    ++generations[block.id()];
    blocks.push_back(std::move(block));
  };
  for (int step = 0; step < 100000; ++step) {
    int used = 0;
    for (const auto& [id, count] : references) used += count > 0;
    const int available = kBlocks - used - reserved;
    switch (random() % 9) {
      case 0: {
        std::optional<Block> block = pool.TryAllocate();
        ASSERT_EQ(block.has_value(), available > 0);
        if (block) give_out(*std::move(block));
        break;
      }
      case 1: {
        const int count = static_cast<int>(random() % 6);
        std::optional<Reservation> reservation = pool.TryReserve(count);
        ASSERT_EQ(reservation.has_value(), count <= available);
        if (reservation) reserved += count, reservations.push_back(*std::move(reservation));
        break;
      }
      case 2:
        if (reservations.empty()) break;
        if (Reservation& reservation = reservations[random() % reservations.size()];
            reservation.count() > 0) {
          --reserved;
          give_out(reservation.Take());
        }
        break;
      case 3:
        if (reservations.empty()) break;
        std::swap(reservations[random() % reservations.size()], reservations.back());
        reserved -= reservations.back().count();
        reservations.pop_back();
        break;
      case 4:
        if (blocks.empty()) break;
        blocks.push_back(blocks[random() % blocks.size()].Share());
        ++references[blocks.back().id()];
        break;
      case 5:
        for (int drops = 0; drops < 2 && !blocks.empty(); ++drops) {
          drop(random() % blocks.size());
        }
        break;
      case 6:
        if (blocks.empty()) break;
        keep.insert(blocks.back().id());
        pool.Keep(blocks.back().id());
        break;
      case 7: {
        if (random() % 4 != 0) break;
        const auto id = static_cast<int32_t>(random() % kBlocks);
        keep.erase(id);
        unlist(id);
        pool.StopKeeping(id);
        break;
      }
      case 8: {
        if (reservations.empty() || kept_order.empty()) break;
        Reservation& reservation = reservations[random() % reservations.size()];
        if (reservation.count() == 0) break;
        const int32_t id = kept_order[random() % kept_order.size()];
        blocks.push_back(reservation.TakeKept(id));
        references[id] = 1;
        unlist(id);
        --reserved;
        break;
      }
    }
    pool.CheckInvariants();
    ASSERT_EQ(pool.kept_blocks(), static_cast<int>(kept_order.size()));
    ASSERT_EQ(pool.reserved_blocks(), reserved);
    ASSERT_EQ(pool.used_blocks() + pool.free_blocks(), kBlocks);
    for (const auto& [id, count] : references) {
      ASSERT_EQ(pool.reference_count(id), count);
      ASSERT_EQ(pool.generation(id), generations[id]);
    }
  }
}

TEST(BlockPoolDeathTest, TakingMoreThanWasReservedIsABug) {
  BlockPool pool(2);
  Reservation reservation = *pool.TryReserve(0);
  EXPECT_DEATH(reservation.Take(), "nothing is reserved");
}

}  // namespace
}  // namespace baton
