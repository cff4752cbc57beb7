// A sender of two layers, its events and what it asked for.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "prefill_worker/send_machine.h"

namespace baton {

inline constexpr int kTokens = 150;
inline constexpr uint64_t kWindow = uint64_t{1} << 20;  // bytes that a receiver takes

class SendMachineTest : public ::testing::Test {
 protected:
  SendMachineTest() { Restart(1); }

  void Restart(int streams) {
    SendConfig config;
    config.layout = {.layers = 2, .kv_heads = 1, .head_dim = 4, .block_size = 16};
    for (int i = 0; i < kTokens; ++i) config.token_ids.push_back(i);
    config.open.set_token_count(kTokens);
    config.open.set_wire_dtype("f16");
    config.open.mutable_key()->set_attempt(1);
    config.open.set_capability("secret");
    config.limits.max_payload_bytes = 1024;  // 64 tokens of one layer
    config.limits.min_payload_bytes = 0;
    config.streams = streams;
    sender_.emplace(config);
    actions_.clear();
  }

  void Do(const SendEvent::Any& event) {
    for (SendAction::Any& action : sender_->Handle(event, now_)) actions_.push_back(action);
  }
  void Opened(uint32_t start, uint64_t window) {
    internal::v1::PushResponse response;
    response.mutable_opened()->set_start_token(start);
    response.mutable_opened()->set_window_bytes(window);
    Do(SendEvent::Response{response});
  }
  void Ack(uint64_t sequence_number, uint64_t window, int stream = 0) {
    internal::v1::PushResponse response;
    response.mutable_ack()->set_sequence_number(sequence_number);
    response.mutable_ack()->set_window_bytes(window);
    Do(SendEvent::Response{response, stream});
  }
  void Refuse(internal::v1::PushRefused::Reason reason, uint64_t sequence_number = 0,
              int stream = 0) {
    internal::v1::PushResponse response;
    response.mutable_refused()->set_reason(reason);
    response.mutable_refused()->set_sequence_number(sequence_number);
    Do(SendEvent::Response{response, stream});
  }
  void Layer(int layer, int first, int end) {
    std::vector<uint32_t> crcs(static_cast<size_t>(KvPages(end) - first / kKvPageTokens), 7);
    Do(SendEvent::LayerReady{{layer, {first, end}}, crcs});
  }
  void Prompt() {
    for (const auto& [first, end] : {std::pair{0, 64}, {64, 128}, {128, kTokens}}) {
      Layer(0, first, end);
      Layer(1, first, end);
      Do(SendEvent::ChunkReady{end});
    }
    Do(SendEvent::FirstToken{});
  }
  void Tick(absl::Duration later) {
    now_ += later;
    Do(SendEvent::Tick{});
  }

  template <typename A>
  std::vector<A> Taken() {
    std::vector<A> taken;
    for (const SendAction::Any& action : actions_) {
      if (const A* a = std::get_if<A>(&action)) taken.push_back(*a);
    }
    return taken;
  }
  size_t Count(internal::v1::PushRequest::EventCase kind) {
    size_t count = 0;
    for (const auto& sent : Taken<SendAction::SendControl>()) {
      if (sent.message.event_case() == kind) ++count;
    }
    return count;
  }

  absl::Time now_ = absl::UnixEpoch();
  std::optional<SendMachine> sender_;
  std::vector<SendAction::Any> actions_;
};

}  // namespace baton
