// The data messages of a push that came and are not answered yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/kv/token_range.h"
#include "decode_worker/receive_events.h"

namespace baton {

struct HeldMessage {
  PushStreamId stream = 0;
  uint64_t message_id = 0;
  size_t payload_bytes = 0;
  internal::v1::KvDataHeader header{};
  size_t window_bytes = 0;  // payload bytes that it counts for in the window
};

// Each message is in copy, or waits for another's copy into one of its pages. The receiver's window
// bounds how many there are. Not thread-safe.
class HeldMessages {
 public:
  // A message and what of it is in copy.
  struct InCopy {
    HeldMessage message;
    std::vector<LayerTokens> ranges;
  };

  // Whether the same message came on the same stream. The sender repeats a message when it misses
  // the answer; the answer comes once the copy is made.
  bool HoldsTheSame(const HeldMessage& message) const;
  // Whether a message with this sequence number is held from other streams only: then that stream
  // was lost, and the message came again before the loss is known here or its copy is made.
  bool HeldFromOthersOnly(const HeldMessage& message) const;

  // The message counts in bytes() from Count to Uncount.
  // tests/planted_bugs: window_not_counted
  void Count(const HeldMessage& message) { bytes_ += message.window_bytes; }
  void Uncount(const HeldMessage& message) { bytes_ -= message.window_bytes; }
  uint64_t bytes() const { return bytes_; }

  void Wait(HeldMessage message) { waiting_.push_back(std::move(message)); }
  // Takes all messages that wait out, in their order.
  std::vector<HeldMessage> TakeWaiting();
  // Returns the id of the copy.
  uint64_t BeginCopy(InCopy copy);
  // REQUIRES: the copy was begun and has not ended.
  InCopy EndCopy(uint64_t copy_id);

  bool any_in_copy() const { return !copies_.empty(); }
  bool empty() const { return copies_.empty() && waiting_.empty(); }

 private:
  friend struct MachineState;  // a test compares states with it
  void ForEach(absl::FunctionRef<void(const HeldMessage&)> visit) const;

  uint64_t bytes_ = 0;
  uint64_t next_copy_id_ = 1;
  std::map<uint64_t, InCopy> copies_;
  std::vector<HeldMessage> waiting_;
};

}  // namespace baton
