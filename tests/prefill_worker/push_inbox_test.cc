#include "prefill_worker/push_inbox.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

PushInbox::Generation Constant() {
  return [](int32_t) { return 7u; };
}

TEST(PushInbox, WaitsNoLongerThanItsTimeout) {
  PushInbox inbox(Constant());
  EXPECT_FALSE(inbox.Next(absl::ZeroDuration()).has_value());
  EXPECT_FALSE(inbox.Next(absl::Milliseconds(1)).has_value());
  EXPECT_FALSE(inbox.Next(-absl::InfiniteDuration()).has_value());
}

TEST(PushInbox, KeepsTheOrderOfEventsAndOfReleases) {
  const auto inbox = std::make_shared<PushInbox>(Constant());
  for (int i = 0; i < 10; ++i) inbox->Post({KvSender::ChunkReady{i}, {}, {}});
  for (int i = 0; i < 10; ++i) {
    const auto item = inbox->Next(absl::InfiniteDuration());
    ASSERT_TRUE(item.has_value());
    EXPECT_EQ(std::get<KvSender::ChunkReady>(item->event).end_token, i);
  }
  // Intact and not by turns.
  for (uint32_t i = 0; i < 10; ++i) PushInbox::Track(inbox, {{0, 7 + i % 2}})();
  for (uint32_t i = 0; i < 10; ++i) {
    const auto item = inbox->Next(absl::InfiniteDuration());
    ASSERT_TRUE(item.has_value());
    EXPECT_EQ(std::get<KvSender::SlicesReleased>(item->event).intact, i % 2 == 0);
  }
  EXPECT_FALSE(inbox->Next(absl::ZeroDuration()).has_value());
}

TEST(PushInbox, SeesABlockThatWasGivenAwayWhileItsSlicesLived) {
  std::atomic<uint32_t> generation = 3;
  const auto inbox = std::make_shared<PushInbox>(
      [&](int32_t block) { return block == 5 ? generation.load() : 0; });
  const auto kept = PushInbox::Track(inbox, {{4, 0}, {5, 3}});
  const auto stale = PushInbox::Track(inbox, {{4, 0}, {5, 3}});
  kept();
  ++generation;
  stale();
  EXPECT_TRUE(std::get<KvSender::SlicesReleased>(inbox->Next(absl::ZeroDuration())->event).intact);
  EXPECT_FALSE(std::get<KvSender::SlicesReleased>(inbox->Next(absl::ZeroDuration())->event).intact);
}

TEST(PushInbox, LosesNothingFromManyThreadsAndOutlivesItsLastRelease) {
  constexpr int kThreads = 4;
  constexpr int kEach = 3000;
  for (int round = 0; round < 5; ++round) {
    auto inbox = std::make_shared<PushInbox>(Constant());
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      std::vector<std::function<void()>> releases;
      for (int i = 0; i < kEach; ++i) releases.push_back(PushInbox::Track(inbox, {{t, 7}}));
      threads.emplace_back([inbox = inbox.get(), releases = std::move(releases), t] {
        for (const auto& release : releases) {
          if (t % 2 == 0) inbox->Post({KvSender::Tick{}, {}, {}});
          release();
        }
      });
    }
    int released = 0;
    int ticks = 0;
    while (released + ticks < kThreads * kEach * 3 / 2) {
      const auto item = inbox->Next(absl::Seconds(30));
      ASSERT_TRUE(item.has_value());
      (std::holds_alternative<KvSender::Tick>(item->event) ? ticks : released) += 1;
    }
    EXPECT_EQ(released, kThreads * kEach);
    inbox = nullptr;  // under a release that has not returned perhaps
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace baton
