#include "common/base/bounded_queue.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);  // only a failure waits this long

TEST(BoundedQueue, GivesItemsBackInOrder) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.TryPush(int{i}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.Pop(kLong), i);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(BoundedQueue, RefusesTheItemBeyondItsBoundAndLeavesItWhole) {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(1)));
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(queue.TryPush(std::move(third)));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(**queue.Pop(kLong), 1);
  EXPECT_TRUE(queue.TryPush(std::move(third)));
}

TEST(BoundedQueue, PopOfAnEmptyQueueEndsAtItsTimeout) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.Pop(absl::ZeroDuration()), std::nullopt);
  EXPECT_EQ(queue.Pop(absl::Milliseconds(2)), std::nullopt);
  EXPECT_EQ(queue.Pop(-absl::Seconds(1)), std::nullopt);
}

TEST(BoundedQueue, AfterCloseTakesNothingButGivesWhatItHas) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.TryPush(1));
  queue.Close();
  EXPECT_FALSE(queue.TryPush(2));
  EXPECT_EQ(queue.Pop(kLong), 1);
  EXPECT_EQ(queue.Pop(kLong), std::nullopt);  // at once
}

TEST(BoundedQueue, CloseWakesEveryWaitingConsumer) {
  BoundedQueue<int> queue(1);
  std::vector<std::thread> consumers;
  for (int i = 0; i < 3; ++i) {
    consumers.emplace_back([&] { EXPECT_EQ(queue.Pop(absl::InfiniteDuration()), std::nullopt); });
  }
  queue.Close();
  for (std::thread& consumer : consumers) consumer.join();
}

TEST(BoundedQueue, PassesEveryItemOnceBetweenThreadsAndNeverExceedsItsBound) {
  constexpr int kItems = 20000;
  constexpr size_t kBound = 4;
  BoundedQueue<int> queue(kBound);
  std::thread producer([&] {
    for (int i = 0; i < kItems;) {
      if (queue.TryPush(int{i})) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
    queue.Close();
  });
  for (int i = 0; i < kItems; ++i) {
    EXPECT_LE(queue.size(), kBound);
    ASSERT_EQ(queue.Pop(kLong), i);
  }
  EXPECT_EQ(queue.Pop(kLong), std::nullopt);
  producer.join();
}

}  // namespace
}  // namespace baton
