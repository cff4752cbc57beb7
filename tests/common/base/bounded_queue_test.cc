#include "common/base/bounded_queue.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);  // only a test that fails waits this long

TEST(BoundedQueue, GivesItemsBackInOrder) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.TryPush(int{i}), Pushed::kYes);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.Pop(kLong), i);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(BoundedQueue, RefusesTheItemBeyondItsBoundAndLeavesItWhole) {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  EXPECT_EQ(queue.TryPush(std::make_unique<int>(1)), Pushed::kYes);
  EXPECT_EQ(queue.TryPush(std::make_unique<int>(2)), Pushed::kYes);
  auto third = std::make_unique<int>(3);
  EXPECT_EQ(queue.TryPush(std::move(third)), Pushed::kFull);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(**queue.Pop(kLong), 1);
  EXPECT_EQ(queue.TryPush(std::move(third)), Pushed::kYes);
}

TEST(BoundedQueue, KeepsPlacesFreeForThoseWhoMustNotBeRefused) {
  BoundedQueue<int> queue(3);
  EXPECT_EQ(queue.TryPush(1, /*keep_free=*/2), Pushed::kYes);
  EXPECT_EQ(queue.TryPush(2, /*keep_free=*/2), Pushed::kFull);
  EXPECT_EQ(queue.TryPush(3), Pushed::kYes);
  EXPECT_EQ(queue.TryPush(4), Pushed::kYes);
  EXPECT_EQ(queue.TryPush(5), Pushed::kFull);
}

TEST(BoundedQueue, AClosedQueueSaysSoEvenWhenItIsFull) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.TryPush(1), Pushed::kYes);
  queue.Close();
  EXPECT_EQ(queue.TryPush(2), Pushed::kClosed);
}

TEST(BoundedQueue, PopOfAnEmptyQueueEndsAtItsTimeout) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.Pop(absl::ZeroDuration()), std::nullopt);
  EXPECT_EQ(queue.Pop(absl::Milliseconds(2)), std::nullopt);
  EXPECT_EQ(queue.Pop(-absl::Seconds(1)), std::nullopt);
}

TEST(BoundedQueue, AfterCloseTakesNothingButGivesWhatItHas) {
  BoundedQueue<int> queue(2);
  EXPECT_EQ(queue.TryPush(1), Pushed::kYes);
  queue.Close();
  EXPECT_EQ(queue.TryPush(2), Pushed::kClosed);
  EXPECT_EQ(queue.Pop(kLong), 1);
  EXPECT_EQ(queue.Pop(kLong), std::nullopt);  // returns at once
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
      if (queue.TryPush(int{i}) == Pushed::kYes) {
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
