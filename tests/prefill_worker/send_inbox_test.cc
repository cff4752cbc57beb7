#include "prefill_worker/send_inbox.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

SendInbox::Generation Constant() {
  return [](int32_t) { return 7u; };
}

TEST(SendInbox, WaitsNoLongerThanItsTimeout) {
  SendInbox inbox(Constant());
  EXPECT_FALSE(inbox.Next(absl::ZeroDuration()).has_value());
  EXPECT_FALSE(inbox.Next(absl::Milliseconds(1)).has_value());
  EXPECT_FALSE(inbox.Next(-absl::InfiniteDuration()).has_value());
}

TEST(SendInbox, KeepsTheOrderOfEventsAndOfReleases) {
  const auto inbox = std::make_shared<SendInbox>(Constant());
  for (int i = 0; i < 10; ++i) inbox->Post(SendEvent::ChunkReady{i});
  for (int i = 0; i < 10; ++i) {
    const auto message = inbox->Next(absl::InfiniteDuration());
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(std::get<SendEvent::ChunkReady>(*message).end_token, i);
  }
  // Intact and not by turns.
  for (uint32_t i = 0; i < 10; ++i) SendInbox::Track(inbox, {{0, 7 + i % 2}})();
  for (uint32_t i = 0; i < 10; ++i) {
    const auto message = inbox->Next(absl::InfiniteDuration());
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(std::get<SendInbox::Released>(*message).intact, i % 2 == 0);
  }
  EXPECT_FALSE(inbox->Next(absl::ZeroDuration()).has_value());
}

TEST(SendInbox, SeesABlockThatWasGivenAwayWhileItsSlicesLived) {
  std::atomic<uint32_t> generation = 3;
  const auto inbox = std::make_shared<SendInbox>(
      [&](int32_t block) { return block == 5 ? generation.load() : 0; });
  const auto kept = SendInbox::Track(inbox, {{4, 0}, {5, 3}});
  const auto stale = SendInbox::Track(inbox, {{4, 0}, {5, 3}});
  kept();
  ++generation;
  stale();
  EXPECT_TRUE(std::get<SendInbox::Released>(*inbox->Next(absl::ZeroDuration())).intact);
  EXPECT_FALSE(std::get<SendInbox::Released>(*inbox->Next(absl::ZeroDuration())).intact);
}

TEST(SendInbox, LosesNothingFromManyThreadsAndOutlivesItsLastRelease) {
  constexpr int kThreads = 4;
  constexpr int kEach = 3000;
  for (int round = 0; round < 5; ++round) {
    auto inbox = std::make_shared<SendInbox>(Constant());
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      std::vector<std::function<void()>> releases;
      for (int i = 0; i < kEach; ++i) releases.push_back(SendInbox::Track(inbox, {{t, 7}}));
      threads.emplace_back([inbox = inbox.get(), releases = std::move(releases), t] {
        for (const auto& release : releases) {
          if (t % 2 == 0) inbox->Post(SendEvent::ChunkReady{});
          release();
        }
      });
    }
    int released = 0;
    int chunks = 0;
    while (released + chunks < kThreads * kEach * 3 / 2) {
      const auto message = inbox->Next(absl::Seconds(30));
      ASSERT_TRUE(message.has_value());
      (std::holds_alternative<SendEvent::ChunkReady>(*message) ? chunks : released) += 1;
    }
    EXPECT_EQ(released, kThreads * kEach);
    inbox = nullptr;  // under a release that has not returned perhaps
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace baton
