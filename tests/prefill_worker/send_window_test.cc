#include "prefill_worker/send_window.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

internal::v1::KvDataHeader Header(uint64_t sequence_number) {
  internal::v1::KvDataHeader header;
  header.set_sequence_number(sequence_number);
  return header;
}

TEST(SendWindow, TheLeastLoadedStreamIsNextAndTheLowestOfEqualOnes) {
  SendWindow window;
  window.OpenStreams(3);
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(window.Add(Header(1), 100, now), 0);
  EXPECT_EQ(window.Add(Header(2), 50, now), 1);
  EXPECT_EQ(window.Add(Header(3), 100, now), 2);
  EXPECT_EQ(window.Add(Header(4), 40, now), 1);  // 50 are the least
  EXPECT_EQ(window.Add(Header(5), 1, now), 1);   // 90
  EXPECT_EQ(window.Acknowledge(3, 2, now), SendWindow::Answer::kAcknowledged);
  EXPECT_EQ(window.Add(Header(6), 1, now), 2);
  EXPECT_EQ(window.Acknowledge(3, 2, now), SendWindow::Answer::kUnknown);
}

// Against a model that adds up every time.
TEST(SendWindow, AgreesWithAPlainModel) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const int streams = 1 + static_cast<int>(random() % 16);
    SendWindow window;
    window.OpenStreams(streams);
    std::set<int> open;
    for (int stream = 0; stream < streams; ++stream) open.insert(stream);
    struct Sent {
      size_t bytes;
      int stream;
    };
    std::map<uint64_t, Sent> sent;
    const auto least = [&](uint64_t except) {
      std::map<int, size_t> load;
      for (const int stream : open) load[stream] = 0;
      for (const auto& [id, message] : sent) {
        if (id != except && message.stream >= 0) load[message.stream] += message.bytes;
      }
      return std::min_element(load.begin(), load.end(),
                              [](const auto& a, const auto& b) { return a.second < b.second; })
          ->first;
    };
    uint64_t next = 1;
    const absl::Time now = absl::UnixEpoch();
    for (int step = 0; step < 60; ++step) {
      const uint64_t some = 1 + random() % next;
      const int stream = static_cast<int>(random() % static_cast<unsigned>(streams));
      if (random() % 2 == 0) {
        const size_t bytes = 1 + random() % 5;
        const int wanted = least(0);
        ASSERT_EQ(window.Add(Header(next), bytes, now), wanted);
        sent[next++] = {bytes, wanted};
      } else if (random() % 2 == 0) {
        const SendWindow::Answer answer = window.Acknowledge(some, stream, now);
        ASSERT_EQ(answer == SendWindow::Answer::kAcknowledged, sent.erase(some) == 1);
      } else if (random() % 4 != 0 && window.Find(some) != nullptr) {
        const int wanted = least(some);
        ASSERT_EQ(window.Move(some, now), wanted);
        sent[some].stream = wanted;
      } else if (stream > 0 && window.Carries(stream)) {
        std::vector<uint64_t> left;
        for (const auto& [id, message] : sent) {
          if (message.stream == stream) left.push_back(id);
        }
        open.erase(stream);
        ASSERT_EQ(window.CloseStream(stream), left);
        for (const uint64_t id : left) sent[id].stream = -1;  // on none until it is moved
        for (const uint64_t id : left) {
          const int wanted = least(id);
          ASSERT_EQ(window.Move(id, now), wanted);
          sent[id].stream = wanted;
        }
      }
      uint64_t bytes = 0;
      for (const auto& [id, message] : sent) bytes += message.bytes;
      ASSERT_EQ(window.bytes(), bytes);
      ASSERT_EQ(window.messages().size(), sent.size());
    }
  }
}

TEST(SendWindow, AStreamIsSilentFromWhenItCarriesSomething) {
  SendWindow window;
  window.OpenStreams(2);
  const absl::Duration timeout = absl::Seconds(20);
  const absl::Time start = absl::UnixEpoch();
  EXPECT_EQ(window.NextSilence(timeout), absl::InfiniteFuture());
  window.Add(Header(1), 10, start + absl::Seconds(100));
  window.Add(Header(2), 10, start + absl::Seconds(105));
  EXPECT_EQ(window.NextSilence(timeout), start + absl::Seconds(120));
  window.Answered(0, start + absl::Seconds(110));
  EXPECT_EQ(window.NextSilence(timeout), start + absl::Seconds(125));
  EXPECT_FALSE(window.Silent(timeout, start + absl::Seconds(124)).has_value());
  EXPECT_EQ(window.Silent(timeout, start + absl::Seconds(125)), 1);
  window.Acknowledge(2, 1, start + absl::Seconds(125));
  EXPECT_EQ(window.Silent(timeout, start + absl::Seconds(130)), 0);
  window.Acknowledge(1, 0, start + absl::Seconds(130));
  EXPECT_EQ(window.NextSilence(timeout), absl::InfiniteFuture());
}

TEST(SendWindow, TheOldestOfAStreamIsMissedOnceEightLaterOnesWereAnswered) {
  SendWindow window;
  window.OpenStreams(2);
  const absl::Time now = absl::UnixEpoch();
  for (uint64_t id = 1; id <= 22; ++id) window.Add(Header(id), 10, now);  // odd ones on stream 0
  for (uint64_t id = 2; id <= 22; id += 2) window.Acknowledge(id, 1, now);
  EXPECT_FALSE(window.Missed(now).has_value());
  for (uint64_t id = 3; id <= 15; id += 2) window.Acknowledge(id, 0, now);
  EXPECT_FALSE(window.Missed(now).has_value()) << "copies may end in another order";
  window.Acknowledge(17, 0, now);
  EXPECT_EQ(window.Missed(now), 1u);
  window.Repeat(1, now);
  EXPECT_FALSE(window.Missed(now).has_value());
  EXPECT_EQ(window.Oldest(0), 19u) << "it went to the end of the stream";
  EXPECT_EQ(window.Acknowledge(1, 0, now), SendWindow::Answer::kAcknowledged);
  EXPECT_EQ(window.Acknowledge(1, 0, now), SendWindow::Answer::kRepeated);
  EXPECT_EQ(window.Acknowledge(1, 0, now), SendWindow::Answer::kUnknown);
}

TEST(SendWindow, OnASilentStreamOneAfterTheOtherIsMissedAndEverLater) {
  SendWindow window;
  absl::Time now = absl::UnixEpoch();
  for (uint64_t id = 1; id <= 5; ++id) window.Add(Header(id), 10, now);
  absl::Duration last;
  for (uint64_t id = 1; id <= 3; ++id) {
    const absl::Duration wait = window.NextMissed() - now;
    EXPECT_GT(wait, last);
    EXPECT_FALSE(window.Missed(now + wait - absl::Nanoseconds(1)).has_value());
    now += wait;
    last = wait;
    ASSERT_EQ(window.Missed(now), id);
    window.Repeat(id, now);
  }
  EXPECT_EQ(window.NextMissed(), absl::InfiniteFuture());
  window.Answered(0, now);
  EXPECT_LT(window.NextMissed(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace baton
