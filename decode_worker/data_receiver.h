// The data of a push at the decode worker: which message is copied, when, and how it is answered.
// Its mirror at the prefill worker is prefill_worker/data_sender.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_digest.h"
#include "common/handoff/kv_wire_type.h"
#include "decode_worker/held_messages.h"
#include "decode_worker/push_streams.h"
#include "decode_worker/receive_events.h"
#include "decode_worker/received_pages.h"

namespace baton {

// A message with an acceptable header waits while another copy into one of its pages is under way.
// Then those of its pages are copied that are still empty, and it is acknowledged, or asked for
// again if a CRC does not agree. A message of a stream that is not the push's any more is not
// answered. Functions add actions to `actions`. Does no I/O and reads no clock. Not thread-safe.
class DataReceiver {
 public:
  using Actions = std::vector<ReceiveAction::Any>;
  // Why the push has to end.
  struct Failure {
    internal::v1::PushRefused::Reason reason;
    absl::Status status;
  };

  explicit DataReceiver(const ReceiveConfig& config);

  // The push is open: its wire type is known.
  void Open(KvType wire);
  // Expects no tokens before `start_token`: this worker holds their KV.
  void SetStart(int start_token) { pages_.SetStart(start_token); }

  // Takes a message of a stream that carries the push. `config`: as in the constructor.
  std::optional<Failure> Take(const ReceiveConfig& config, const ReceiveEvent::DataReceived& event,
                              const PushStreams& streams, Actions& actions);
  // A copy has ended. REQUIRES: its Copy was asked for, and this is its first answer.
  std::optional<Failure> EndCopy(const ReceiveEvent::CopyDone& event, const PushStreams& streams,
                                 Actions& actions);
  // A copy has ended after the push: nothing is covered or answered any more.
  void AbandonCopy(const ReceiveEvent::CopyDone& event, Actions& actions);
  // Drops the messages that wait.
  void DropWaiting(Actions& actions);
  bool any_in_copy() const { return held_.any_in_copy(); }
  bool all_answered() const { return held_.empty(); }

  // Whether every page before `end_token` is covered.
  bool CoveredBefore(int end_token) const { return pages_.CoveredBefore(end_token); }
  // The digest that both ends compare: KvDigest of the tokens before `end_token`. `config`: as in
  // the constructor. REQUIRES: end_token is no less than in the last call.
  std::string Digest(const ReceiveConfig& config, int end_token,
                     absl::Span<const internal::v1::OutputToken> first_tokens);

 private:
  friend struct MachineState;  // a test compares states with it
  size_t WindowBytesOf(const HeldMessage& message) const;
  std::optional<Failure> Place(HeldMessage message, const PushStreams& streams, Actions& actions);
  void Acknowledge(const HeldMessage& message, const PushStreams& streams, Actions& actions);
  std::optional<Failure> AskAgain(const HeldMessage& message, const PushStreams& streams,
                                  Actions& actions);

  const KvLayout layout_;
  const uint64_t window_limit_bytes_;  // most payload bytes that may be held
  KvWireFormat wire_;                  // wire format of this push; set by Open
  ReceivedPages pages_;
  KvDigester digester_;
  HeldMessages held_;
  std::map<uint64_t, int> refusals_;  // refusals by sequence number; bounded, see AskAgain
};

}  // namespace baton
