#include "common/kv/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/backend/make_backend.h"
#include "tests/support/late_backend.h"

namespace baton {
namespace {

constexpr KvLayout kLayout = {.layers = 3, .kv_heads = 2, .head_dim = 8, .block_size = 32};
constexpr size_t kPageBytes = 2 * 16 * 2 * 8 * 2;  // K and V of 16 tokens in one layer

class KvStagingTest : public testing::Test {
 protected:
  KvStagingTest()
      : backend_(*MakeBackend({.device = "cpu", .threads = 1}), LateBackend::Memory::kFar, 1),
        cache_(*KvCache::Create(backend_, kLayout, 4)) {}

  std::unique_ptr<KvStaging> Create(uint64_t bytes, int chunk_tokens = 16) {
    auto staging = KvStaging::Create(*cache_, {.bytes = bytes, .chunk_tokens = chunk_tokens});
    EXPECT_TRUE(staging.ok()) << staging.status();
    return *std::move(staging);
  }

  LateBackend backend_;
  std::unique_ptr<KvCache> cache_;
};

// One who keeps what it is given.
struct Holder {
  explicit Holder(KvStaging& staging)
      : user(std::make_unique<KvStaging::User>(
            staging, [this](KvStaging::Slot slot) { Keep(std::move(slot)); })) {}
  void Take() {
    waiting = true;
    KvStaging::Slot slot = user->Take();
    if (!slot.empty()) Keep(std::move(slot));
  }
  void Keep(KvStaging::Slot slot) {
    EXPECT_TRUE(std::exchange(waiting, false)) << "nobody is given what it did not ask for";
    slots.push_back(std::move(slot));
  }
  bool waiting = false;
  std::deque<KvStaging::Slot> slots;
  std::unique_ptr<KvStaging::User> user;
};

TEST_F(KvStagingTest, SlotsFitTheChunksAndTheBound) {
  for (const uint64_t bytes : {kPageBytes, 3 * kPageBytes + 7, 100 * kPageBytes}) {
    for (const int chunk : {1, 16, 17, 64, 4096}) {
      const auto staging = Create(bytes, chunk);
      EXPECT_LE(backend_.copies().pinned_bytes(), bytes);
      EXPECT_EQ(backend_.copies().pinned_bytes(),
                staging->slot_bytes() * static_cast<size_t>(staging->slot_count()));
      EXPECT_EQ(staging->slot_tokens() % kKvPageTokens, 0);
      EXPECT_LT(staging->slot_tokens(), chunk + kKvPageTokens);
      EXPECT_GE(static_cast<uint64_t>(staging->slot_count()),
                std::min<uint64_t>(8, bytes / kPageBytes));
      EXPECT_EQ(staging->layout().block_bytes(),
                kPageBytes * static_cast<size_t>(staging->slot_tokens() / kKvPageTokens));
    }
  }
  EXPECT_EQ(backend_.copies().pinned_bytes(), 0u);
}

TEST_F(KvStagingTest, TooLittleMemoryIsRefusedWithTheFlag) {
  const auto staging = KvStaging::Create(*cache_, {.bytes = kPageBytes - 1});
  EXPECT_EQ(staging.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(staging.status().message()),
              testing::AllOf(testing::HasSubstr("--kv-staging-memory-bytes"),
                             testing::HasSubstr(std::to_string(kPageBytes))));
}

TEST_F(KvStagingTest, NeverGivesASlotTwiceNorMoreThanAnEqualPart) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    const auto staging = Create((1 + random() % 20) * kPageBytes);
    std::vector<std::unique_ptr<Holder>> holders;
    const auto check = [&] {
      std::set<uint8_t*> data;
      size_t sharers = 0;
      for (const auto& holder : holders) {
        for (const KvStaging::Slot& slot : holder->slots) {
          EXPECT_TRUE(data.insert(slot.data()).second);
        }
        if (holder->waiting || !holder->slots.empty()) ++sharers;
      }
      const auto count = static_cast<size_t>(staging->slot_count());
      EXPECT_EQ(data.size() + static_cast<size_t>(staging->free_slots()), count);
      if (sharers == 0) return;
      for (const auto& holder : holders) {
        // Who waits though there is room has its part already.
        if (!holder->waiting || staging->free_slots() == 0) continue;
        EXPECT_GE(holder->slots.size(), std::max<size_t>(1, count / sharers));
      }
    };
    for (int step = 0; step < 300; ++step) {
      const size_t index = holders.empty() ? 0 : random() % holders.size();
      if (holders.empty() || random() % 10 == 0) {
        holders.push_back(std::make_unique<Holder>(*staging));
      } else if (random() % 12 == 0) {
        Holder& leaver = *holders[index];
        leaver.user.reset();
        leaver.waiting = false;  // and its slots go back later
        if (random() % 2 == 0) holders.erase(holders.begin() + static_cast<long>(index));
      } else if (random() % 2 == 0 && !holders[index]->slots.empty()) {
        holders[index]->slots.pop_front();
      } else if (!holders[index]->waiting && holders[index]->user != nullptr) {
        const size_t held = holders[index]->slots.size();
        holders[index]->Take();
        size_t sharers = 0;
        for (const auto& holder : holders) sharers += holder->waiting || !holder->slots.empty();
        if (holders[index]->slots.size() > held) {
          EXPECT_LT(held,
                    std::max<size_t>(1, static_cast<size_t>(staging->slot_count()) / sharers));
        }
      }
      check();
    }
    // All of them go, one after the other: those who wait get their turn.
    while (!holders.empty()) {
      holders.front()->user.reset();
      holders.erase(holders.begin());
      check();
    }
    EXPECT_EQ(staging->free_slots(), staging->slot_count());
  }
}

TEST_F(KvStagingTest, WhoHoldsAllGivesWayToWhoComesLater) {
  const auto staging = Create(8 * kPageBytes);
  Holder first(*staging);
  while (!first.waiting) first.Take();
  EXPECT_EQ(first.slots.size(), 8u);
  Holder second(*staging);
  second.Take();
  EXPECT_TRUE(second.slots.empty());
  for (int i = 0; i < 4; ++i) {
    first.slots.pop_front();
    ASSERT_EQ(second.slots.size(), static_cast<size_t>(i + 1)) << "the first has its part";
    if (i < 3) second.Take();
  }
  first.slots.pop_front();
  EXPECT_EQ(first.slots.size(), 4u) << "less than its part, and it still waits";
  second.user.reset();
  second.slots.clear();
  first.user.reset();
  first.slots.clear();
  EXPECT_EQ(staging->free_slots(), 8);
}

TEST_F(KvStagingTest, ThreadsThatTakeAndGiveBackAllGoOn) {
  const auto staging = Create(4 * kPageBytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      struct Inbox {
        std::mutex mutex;
        std::condition_variable changed;
        std::deque<KvStaging::Slot> granted;
      };
      const auto inbox = std::make_shared<Inbox>();
      KvStaging::User user(*staging, [inbox](KvStaging::Slot slot) {
        const std::lock_guard lock(inbox->mutex);
        inbox->granted.push_back(std::move(slot));
        inbox->changed.notify_all();
      });
      for (int i = 0; i < 200; ++i) {
        KvStaging::Slot slot = user.Take();
        if (slot.empty()) {
          std::unique_lock lock(inbox->mutex);
          inbox->changed.wait(lock, [&] { return !inbox->granted.empty(); });
          slot = std::move(inbox->granted.front());
          inbox->granted.pop_front();
        }
        slot.data()[0] = static_cast<uint8_t>(i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(staging->free_slots(), 4);
}

TEST(KvCache, KeepsTheFirstCrcOfAStagedPageForTheLifeOfItsBlock) {
  LateBackend backend(*MakeBackend({.device = "cpu", .threads = 1}), LateBackend::Memory::kFar, 1);
  const auto cache = *KvCache::Create(backend, kLayout, 4);
  EXPECT_TRUE(cache->KeepStagedPageCrc({2, 7}, 1, 0, 100));
  EXPECT_TRUE(cache->KeepStagedPageCrc({2, 7}, 1, 1, 200)) << "another page";
  EXPECT_TRUE(cache->KeepStagedPageCrc({2, 7}, 1, 0, 100));
  EXPECT_FALSE(cache->KeepStagedPageCrc({2, 7}, 1, 0, 101)) << "it changed";
  EXPECT_FALSE(cache->KeepStagedPageCrc({2, 7}, 1, 1, 0));
  EXPECT_TRUE(cache->KeepStagedPageCrc({2, 8}, 1, 0, 101)) << "the block was given out anew";
  EXPECT_TRUE(cache->KeepStagedPageCrc({0, 0}, 0, 0, 0)) << "generation 0 is a life too";
  EXPECT_FALSE(cache->KeepStagedPageCrc({0, 0}, 0, 0, 1));
}

}  // namespace
}  // namespace baton
