// The events and actions of a push's state machine at the prefill worker. Its mirror at the decode
// worker is decode_worker/receive_events.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/kv/layout.h"
#include "common/kv/token_range.h"
#include "common/rpc/limits.h"
#include "prefill_worker/prefill_spans.h"

namespace baton {

// Bounds of one push in bytes and time.
struct SendLimits {
  size_t max_payload_bytes = kMaxKvPayloadBytes;  // also at most a third of the flight limit
  // Layers of one chunk wait for each other until a message has this many bytes. The chunk's last
  // layer ends the wait.
  size_t min_payload_bytes = size_t{1} << 20;
  absl::Duration open_timeout = absl::Seconds(10);
  // Time for which a stream with unacknowledged messages may have no answer.
  absl::Duration ack_timeout = absl::Seconds(10);
  absl::Duration commit_timeout = absl::Seconds(10);
  // A peer that does not answer an abort is cancelled after abort_timeout + close_timeout, and its
  // connections are given up after one more close_timeout: within 3 s the blocks are back.
  absl::Duration abort_timeout = absl::Milliseconds(500);
  absl::Duration close_timeout = absl::Seconds(1);
  absl::Duration push_timeout = absl::Hours(1);  // for the whole push
};

// The bytes that a push moved and its times, on the sender's clock.
struct SendReport {
  uint64_t bytes_sent = 0;    // payload bytes of first sends
  uint64_t bytes_saved = 0;   // payload bytes that the receiver held already
  uint64_t bytes_resent = 0;  // payload bytes sent again: refused, or the stream or answer was lost
  uint32_t messages = 0;
  uint32_t stale_messages = 0;  // messages whose blocks were given away while they were sent
  bool committed = false;       // false with an OK status: the first token ended the request
  // Time from the first byte sent (or, if all was computed before the open was answered, from the
  // last chunk computed) to the answer to the commit.
  absl::Duration transfer;
  absl::Duration exposed_transfer;       // from the last chunk computed to the answer to the commit
  absl::Time transfer_began{};           // the time at which `transfer` begins
  std::vector<SentSpans::Span> spans{};  // times of the messages
};

// The contents and limits of one push.
struct SendConfig {
  internal::v1::PushOpen open;     // sent as it is; REQUIRES: its wire_dtype is a known one
  KvLayout layout;                 // layout of the sender's cache
  std::vector<int32_t> token_ids;  // the whole sequence; open.token_count ids
  SendLimits limits;
  int choices = 1;  // choices of the sequence: the commit has a first token for each
  int streams = 1;  // most streams that carry data, 1 to kMaxKvStreams; a short prompt uses fewer
};

// The kinds of events. `stream`: 0 is the push's own, the others joined it.
struct SendEvent {
  struct Begin {};  // the prompt has started
  // `kv` is computed and will not change any more. REQUIRES: the tokens are whole pages, except at
  // the sequence's end; each page of a layer is announced once. For a layer with a window only the
  // tokens that the hand-off carries are announced (FirstHandedOff).
  struct LayerReady {
    LayerTokens kv;
    std::vector<uint32_t> page_crcs;  // CRC32C of each page as it goes over the wire
  };
  // Sends all announced layers without waiting for more: no layer follows before they are sent.
  struct Flush {};
  struct ChunkReady {
    int end_token = 0;                       // all layers of the tokens before it were announced
    absl::Time at = absl::InfiniteFuture();  // when it was computed, if that is before now
  };
  struct FirstToken {  // one event for each choice, in their order
    internal::v1::OutputToken token;
  };
  struct Abort {
    internal::v1::PushAbort::Reason reason = internal::v1::PushAbort::REASON_FAILED;
    absl::Status status = absl::OkStatus();  // how the push ends; OK: the reason decides
  };
  struct Response {
    internal::v1::PushResponse message;
    int stream = 0;
  };
  struct StreamEnded {
    absl::Status status;
    int stream = 0;
  };
  struct SlicesReleased {  // the slices of one SendData are destroyed
    bool intact = true;    // false: one of its blocks was given away before
  };
  struct Tick {};
  struct Alive {};  // the engine still has the prompt
  using Any = std::variant<Begin, LayerReady, Flush, ChunkReady, FirstToken, Abort, Response,
                           StreamEnded, SlicesReleased, Tick, Alive>;
};

// The kinds of actions. They are to be executed in order.
struct SendAction {
  struct OpenStream {
    internal::v1::PushRequest first;
    int stream = 0;
  };
  struct SendControl {  // on stream 0
    internal::v1::PushRequest message;
    bool drop_queued = false;  // whether to drop data that was not given to the network yet
  };
  // Answered by SlicesReleased, however it ends.
  struct SendData {
    internal::v1::KvDataHeader header;
    size_t payload_bytes = 0;
    int stream = 0;
  };
  struct HalfClose {
    int stream = 0;
  };
  struct CancelStream {
    int stream = 0;
  };
  // Gives the connections up: cancelled calls do not end, or their slices are not given back.
  struct DropChannel {};
  // Comes once. OK: committed, or ended by the first token. FAILED_PRECONDITION: the models or the
  // KV shapes of the two sides do not fit. TakesNoWork (worker_status.h): the decode worker is full
  // or draining.
  struct Finished {
    absl::Status status;
    SendReport report;
  };
  struct ReleaseBlocks {};  // comes once, after Finished: nothing points into the blocks any more
  using Any = std::variant<OpenStream, SendControl, SendData, HalfClose, CancelStream, DropChannel,
                           Finished, ReleaseBlocks>;
};

}  // namespace baton
