// A sender in virtual time over a link with a rate and a delay, to a receiver that takes all.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "prefill_worker/send_machine.h"

namespace baton {
namespace {

using internal::v1::PushResponse;

const KvLayout kLayout = {.layers = 30, .kv_heads = 3, .head_dim = 64, .block_size = 32};

struct Link {
  double bytes_per_second = 0;
  absl::Duration delay;  // there and back
  absl::Duration jitter;
  int streams = 1;
};

class LinkedSender {
 public:
  // What to make of an acknowledgement on its way.
  using Damage = std::function<void(internal::v1::PushAck&)>;

  LinkedSender(const Link& link, int tokens, uint32_t seed, Damage damage = nullptr)
      : link_(link), tokens_(tokens), random_(seed), damage_(std::move(damage)) {
    SendConfig config;
    config.layout = kLayout;
    config.token_ids.resize(static_cast<size_t>(tokens));
    config.open.set_token_count(static_cast<uint32_t>(tokens));
    config.open.set_wire_dtype("f16");
    config.streams = link.streams;
    sender_ = std::make_unique<SendMachine>(config);
  }

  // Begins with all computed; until the sender is done with it.
  void Run() {
    Do(SendEvent::Begin{});
    for (int layer = 0; layer < kLayout.layers; ++layer) {
      Do(SendEvent::LayerReady{{layer, {0, tokens_}},
                               std::vector<uint32_t>(static_cast<size_t>(KvPages(tokens_)), 7)});
    }
    Do(SendEvent::ChunkReady{tokens_});
    Do(SendEvent::FirstToken{});
    while (!finished_.has_value()) {
      const absl::Time deadline = sender_->NextDeadline();
      const auto next = events_.begin();
      if (next != events_.end() && next->first <= deadline) {
        now_ = next->first;
        const SendEvent::Any event = next->second;
        events_.erase(next);
        Do(event);
      } else {
        ASSERT_NE(deadline, absl::InfiniteFuture());
        now_ = std::max(now_, deadline);
        Do(SendEvent::Tick{});
      }
    }
  }

  const SendAction::Finished& finished() const { return *finished_; }
  bool complete() const {
    return covered_.size() == static_cast<size_t>(kLayout.layers * KvPages(tokens_));
  }
  // The longest that something would have waited for the link because of what was sent before.
  absl::Duration longest_wait() const { return longest_wait_; }
  absl::Duration time() const { return now_ - absl::UnixEpoch(); }
  absl::Duration least_time() const {
    return absl::Seconds(static_cast<double>(tokens_) * kLayout.bytes_per_token() /
                         link_.bytes_per_second);
  }

 private:
  void Do(const SendEvent::Any& event) {
    for (const SendAction::Any& action : sender_->Handle(event, now_)) Execute(action);
  }
  absl::Time Depart(size_t bytes) {
    free_at_ = std::max(free_at_, now_) +
               absl::Seconds(static_cast<double>(bytes) / link_.bytes_per_second);
    return free_at_;
  }
  void Answer(absl::Time departed, int stream, const PushResponse& answer) {
    const double drawn = std::uniform_real_distribution<double>(0, 1)(random_);
    absl::Time& last = last_answer_[stream];
    last = std::max(last, departed + link_.delay + drawn * link_.jitter);
    events_.emplace(last, SendEvent::Response{answer, stream});
  }
  void Execute(const SendAction::Any& action) {
    PushResponse answer;
    if (const auto* open = std::get_if<SendAction::OpenStream>(&action)) {
      if (open->stream != 0) return;
      answer.mutable_opened()->set_window_bytes(kWindow);
      Answer(Depart(200), 0, answer);
    } else if (const auto* data = std::get_if<SendAction::SendData>(&action)) {
      Receive(*data);
    } else if (const auto* control = std::get_if<SendAction::SendControl>(&action)) {
      if (control->message.has_abort()) {
        answer.mutable_refused()->set_reason(internal::v1::PushRefused::REASON_ABORTED);
      } else if (control->message.has_checkpoint()) {
        answer.mutable_checkpointed();
      } else if (complete()) {
        answer.mutable_committed();
      } else {
        answer.mutable_refused()->set_reason(internal::v1::PushRefused::REASON_INCOMPLETE);
      }
      Answer(Depart(100), 0, answer);
    } else if (const auto* finished = std::get_if<SendAction::Finished>(&action)) {
      finished_ = *finished;
    }
  }
  void Receive(const SendAction::SendData& data) {
    const absl::Time departed = Depart(data.payload_bytes);
    longest_wait_ = std::max(longest_wait_, departed - now_);
    events_.emplace(departed, SendEvent::SlicesReleased{});
    const auto& header = data.header;
    for (uint32_t layer = 0; layer < header.layer_count(); ++layer) {
      for (uint32_t token = 0; token < header.token_count(); token += kKvPageTokens) {
        covered_.emplace(header.first_layer() + layer, header.first_token() + token);
      }
    }
    PushResponse answer;
    answer.mutable_ack()->set_sequence_number(header.sequence_number());
    answer.mutable_ack()->set_window_bytes(kWindow);
    if (damage_ != nullptr) damage_(*answer.mutable_ack());
    Answer(departed, data.stream, answer);
  }

  static constexpr uint64_t kWindow = uint64_t{16} << 20;
  const Link link_;
  const int tokens_;
  std::mt19937 random_;
  const Damage damage_;
  std::unique_ptr<SendMachine> sender_;
  absl::Time now_ = absl::UnixEpoch();
  absl::Time free_at_ = absl::UnixEpoch();
  std::map<int, absl::Time> last_answer_;
  std::multimap<absl::Time, SendEvent::Any> events_;
  std::set<std::pair<uint32_t, uint32_t>> covered_;  // (layer, page's first token)
  absl::Duration longest_wait_;
  std::optional<SendAction::Finished> finished_;
};

TEST(SendMachineLink, NothingWaitsLongBehindAPushAndTheLinkIsUsedToTheFull) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> unit(0, 1);
  for (uint32_t round = 0; round < 60; ++round) {
    const Link link = {.bytes_per_second = 125e3 * std::pow(1e3, unit(random)),
                       .delay = absl::Milliseconds(300 * unit(random)),
                       .jitter = absl::Milliseconds(40 * unit(random)),
                       .streams = 1 + static_cast<int>(random() % 3)};
    const int tokens = 100 + static_cast<int>(random() % 2000);
    LinkedSender push(link, tokens, round);
    push.Run();
    const std::string what =
        absl::StrCat(link.bytes_per_second, " bytes a second, ", absl::FormatDuration(link.delay),
                     ", ", tokens, " tokens, ", link.streams, " streams");
    ASSERT_TRUE(push.finished().report.committed) << what << push.finished().status;
    EXPECT_EQ(push.finished().report.bytes_resent, 0u) << what;
    EXPECT_LE(push.longest_wait(), absl::Milliseconds(1200)) << what;
    // Opening, the first messages, and the commit take a few times the delay.
    EXPECT_LE(push.time(), push.least_time() * 1.15 + link.delay * 10) << what;
  }
}

TEST(SendMachineLink, AWrongAcknowledgementIsRepairedInSecondsOrEndsThePushByName) {
  std::mt19937 random(4);
  const Link link = {.bytes_per_second = 1e9, .delay = absl::Microseconds(300), .jitter = {}};
  int committed = 0;
  for (uint32_t round = 0; round < 300; ++round) {
    const int tokens = 16 + static_cast<int>(random() % 1000);
    int left = 1 + static_cast<int>(random() % 3);  // to be damaged
    const auto damage = [&](internal::v1::PushAck& ack) {
      if (left == 0 || random() % 3 != 0) return;
      --left;
      const uint64_t bit = uint64_t{1} << random() % 5;
      ack.set_sequence_number(ack.sequence_number() ^ bit);
    };
    LinkedSender push(link, tokens, round, damage);
    push.Run();
    const SendAction::Finished& finished = push.finished();
    EXPECT_LE(push.time(), absl::Seconds(15)) << round;
    if (finished.status.ok()) {
      EXPECT_TRUE(finished.report.committed && push.complete()) << round;
      ++committed;
    } else {
      EXPECT_EQ(finished.status.code(), absl::StatusCode::kUnavailable) << finished.status;
    }
  }
  EXPECT_GT(committed, 250);
}

}  // namespace
}  // namespace baton
