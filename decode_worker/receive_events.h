// The events and actions of a push's state machine at the decode worker. Its mirror at the prefill
// worker is prefill_worker/send_events.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/decode.pb.h"
#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_wire_type.h"
#include "common/kv/layout.h"
#include "common/kv/token_range.h"

namespace baton {

// Bounds of one push in bytes and time. The state `draining` lasts as long as the copies in flight.
struct ReceiveLimits {
  uint64_t window_bytes = uint64_t{16} << 20;           // most unacknowledged payload bytes
  absl::Duration reservation_timeout = absl::Hours(1);  // from the reservation to the open
  absl::Duration capability_lifetime = absl::Hours(1);  // then it opens and joins nothing
  absl::Duration open_timeout = absl::Seconds(30);      // until the engine has taken the blocks
  // From one message to the next. A prompt that waits in the prefill worker's engine sends signs of
  // life.
  absl::Duration receive_timeout = absl::Seconds(30);
  absl::Duration push_timeout = absl::Hours(1);  // from the open to the commit
};

// The push that is expected, and this worker's own properties.
struct ReceiveConfig {
  internal::v1::AttemptKey key;
  std::string capability;                // 16 bytes that the push must show
  internal::v1::Pusher pusher = {};      // the prefill worker that the router named
  bool secure = false;                   // with TLS: each stream must have the pusher's certificate
  internal::v1::ModelIdentity identity;  // this worker's identity
  internal::v1::KvShape shape;           // this worker's KV shape
  KvLayout layout;                       // layout of this worker's cache
  std::vector<int32_t> token_ids;        // the whole sequence
  std::vector<uint64_t> page_hashes;     // PageHashes of token_ids under this worker's numerics
  std::string cache_salt = {};           // the salt in page_hashes
  bool strict_kv_dtype = false;          // whether to refuse another KV type than this worker's
  int prompt_length = 0;                 // tokens of the original prompt
  int choices = 1;                       // number of choices from key.choice on
  int vocab_size = 0;
  ReceiveLimits limits;
};

// Names the stream that a message came on; answers go to the same stream. The driver draws it; it
// is never 0.
using PushStreamId = uint64_t;

// The kinds of events.
struct ReceiveEvent {
  struct ControlReceived {  // any message but data
    PushStreamId stream = 0;
    internal::v1::PushRequest message;
    std::string peer_id = {};  // SPIFFE id of the stream's peer; set for an open or a join
  };
  struct DataReceived {
    PushStreamId stream = 0;
    uint64_t message_id = 0;  // drawn by the driver, which holds the message until Drop
    std::string header;       // the encoded KvDataHeader
    uint32_t header_crc32c = 0;
    size_t payload_bytes = 0;
  };
  struct Malformed {  // a message that could not be read
    PushStreamId stream = 0;
    std::string detail;
  };
  struct StreamLost {
    PushStreamId stream = 0;
  };
  struct Granted {  // the answer to TakeBlocks
    // The first token to push, a multiple of 16. The worker holds the KV of the tokens before it;
    // for a layer with a window, as far as the hand-off would carry them (CarriedTokens).
    int start_token = 0;
  };
  struct CopyDone {
    uint64_t copy_id = 0;
    bool ok = false;
    // The CRCs to compare with the header's, one for each page of the copy's ranges, in order. They
    // are CRCs of the bytes in the block or, if the copy converted them, of the bytes on the wire.
    std::vector<uint32_t> page_crcs;
    // CRCs of the bytes in the block, if the copy converted into blocks of the host's memory.
    std::vector<uint32_t> block_crcs;
  };
  struct Cancelled {  // the attempt ends: its call is over, or a higher attempt arrived
    internal::v1::PushRefused::Reason reason = internal::v1::PushRefused::REASON_ABORTED;
  };
  struct Tick {};
  struct EventsLost {};  // the driver's queue was full, so some messages were dropped
  using Any = std::variant<ControlReceived, DataReceived, Malformed, StreamLost, Granted, CopyDone,
                           Cancelled, Tick, EventsLost>;
};

// The kinds of actions. They are to be executed in order.
struct ReceiveAction {
  struct TakeBlocks {
    // The numerics under which K and V were computed; empty if the bytes are those that this worker
    // would compute. Held pages serve as their prefix only if they have the same numerics.
    std::string numerics;
  };
  struct Send {
    PushStreamId stream = 0;
    internal::v1::PushResponse message;
  };
  struct EndStream {
    PushStreamId stream = 0;
  };
  // Answered by CopyDone. The payload is [layer][K, V][token] of the header's layers and tokens;
  // the copy writes only `ranges`.
  struct Copy {
    uint64_t copy_id = 0;
    uint64_t message_id = 0;
    internal::v1::KvDataHeader header;
    // Whole pages, except at the sequence's end; ascending by layer, then token.
    std::vector<LayerTokens> ranges;
    KvType wire_type;  // type of the payload
  };
  struct Drop {  // the message is not needed any more
    uint64_t message_id = 0;
  };
  struct CommitSequence {
    std::vector<internal::v1::OutputToken> first_tokens;  // by choice; not all end their choice
    bool exact = false;  // whether the KV is bit for bit what this worker would compute
  };
  // The attempt cannot be committed any more. Comes at most once, and never after CommitSequence.
  struct Failed {
    absl::Status status;
  };
  // The reservation or the blocks are to be given back; no copy is in flight. Comes at most once.
  struct ReleaseBlocks {
    // Set if the attempt broke and the request goes on: the pages before this token may serve the
    // next attempt.
    std::optional<int> resume_tokens;
  };
  using Any =
      std::variant<TakeBlocks, Send, EndStream, Copy, Drop, CommitSequence, Failed, ReleaseBlocks>;
};

// The answer that refuses the push, or, with a sequence number, asks for a message again.
inline ReceiveAction::Send Refusal(PushStreamId stream, internal::v1::PushRefused::Reason reason,
                                   const std::string& detail, uint64_t sequence_number = 0) {
  ReceiveAction::Send refused{stream, {}};
  refused.message.mutable_refused()->set_reason(reason);
  refused.message.mutable_refused()->set_detail(detail);
  refused.message.mutable_refused()->set_sequence_number(sequence_number);
  return refused;
}

}  // namespace baton
