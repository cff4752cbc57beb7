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
  SendInbox inbox(Constant(), {});
  EXPECT_FALSE(inbox.Next(absl::ZeroDuration()).has_value());
  EXPECT_FALSE(inbox.Next(absl::Milliseconds(1)).has_value());
  EXPECT_FALSE(inbox.Next(-absl::InfiniteDuration()).has_value());
}

// What was computed before the loss is still told in its order; nothing may come after a gap.
TEST(SendInbox, LosesWhatThePrefillPostsBeyondTheBoundAndNothingElse) {
  SendInbox inbox(Constant(), {.prefill_messages = 3, .staging_slots = 2});
  inbox.Post(SendInbox::Layer{});
  inbox.Post(SendEvent::ChunkReady{1});
  inbox.Post(SendEvent::FirstToken{});
  EXPECT_FALSE(inbox.lost());
  inbox.Post(SendEvent::ChunkReady{2});
  EXPECT_TRUE(inbox.lost());
  const auto kind = [&] {
    const auto message = inbox.Next(absl::ZeroDuration());
    return message.has_value() ? static_cast<int>(message->index()) : -1;
  };
  const auto index_of = [](const SendInbox::Message& message) {
    return static_cast<int>(message.index());
  };
  EXPECT_EQ(kind(), index_of(SendInbox::Layer{}));
  inbox.Post(SendEvent::ChunkReady{3});  // there is room again, but it would follow a gap
  for (int stream = 0; stream < kMaxKvStreams; ++stream) {
    inbox.Post(SendEvent::Response{{}, stream});
    inbox.Post(SendInbox::StreamOver{{absl::OkStatus(), stream}, nullptr});
  }
  for (int slot = 0; slot < 4; ++slot) inbox.Post(LayerStager::Event{});
  inbox.Post(SendEvent::Abort{});
  EXPECT_EQ(kind(), index_of(SendEvent::ChunkReady{}));
  EXPECT_EQ(kind(), index_of(SendEvent::FirstToken{}));
  for (int stream = 0; stream < kMaxKvStreams; ++stream) {
    EXPECT_EQ(kind(), index_of(SendEvent::Response{}));
    EXPECT_EQ(kind(), index_of(SendInbox::StreamOver{}));
  }
  for (int slot = 0; slot < 4; ++slot) EXPECT_EQ(kind(), index_of(LayerStager::Event{}));
  EXPECT_EQ(kind(), index_of(SendEvent::Abort{}));
  EXPECT_EQ(kind(), -1);
}

TEST(SendInbox, KeepsTheOrderOfEventsAndOfReleases) {
  const auto inbox = std::make_shared<SendInbox>(Constant(), SendInbox::Bounds());
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
      [&](int32_t block) { return block == 5 ? generation.load() : 0; }, SendInbox::Bounds());
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
    auto inbox = std::make_shared<SendInbox>(Constant(), SendInbox::Bounds());
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
