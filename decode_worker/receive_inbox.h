// The queue before the thread of one push at the decode worker. Its mirror at the prefill worker is
// prefill_worker/send_inbox.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/time/time.h"

#include "common/base/bounded_queue.h"
#include "common/handoff/kv_wire.h"
#include "decode_worker/receive_events.h"
#include "decode_worker/staged_copier.h"

namespace baton {

// Thread-safe. Next and Close belong to the push's thread.
class ReceiveInbox {
 public:
  // A message with data, as it came on a stream.
  struct Data {
    PushStreamId stream = 0;
    KvDataMessage message;
  };
  // The engine's answer to TakeBlocks.
  struct Grant {
    std::vector<int32_t> block_table;  // [blocks for all tokens]
    int start_token = 0;               // as in ReceiveEvent::Granted
  };
  using Message =
      std::variant<ReceiveEvent::ControlReceived, Data, ReceiveEvent::Malformed,
                   ReceiveEvent::StreamLost, Grant, ReceiveEvent::Cancelled, StagedCopier::Event>;

  // `staging_slots`: slots of the staging that the push uses; 0 if it uses none.
  explicit ReceiveInbox(size_t staging_slots);

  // Adds a message of a stream. If too many of these wait already, it is dropped, and lost() holds
  // from then on.
  void PostFromStream(Message message);
  bool lost() const { return lost_; }
  // Adds a message that must not be lost: a grant, a cancellation (at most a few come), or an
  // event of a slot. It has a place of its own. False after Close.
  bool Post(Message message);

  // Waits for the next message; nothing after `timeout`, or at once after Close.
  std::optional<Message> Next(absl::Duration timeout) { return messages_.Pop(timeout); }
  void Close() { messages_.Close(); }

 private:
  const size_t own_places_;  // places for messages that must not be lost
  BoundedQueue<Message> messages_;
  std::atomic<bool> lost_ = false;
};

}  // namespace baton
