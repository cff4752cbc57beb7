// The prefill worker's end of one hand-off, as a pure state machine.
//
//   idle -> opening -> sending -> committing -> closing -> gone
//                 \________ aborting ________/
//
// Computed layers come in as events, in any order relative to the receiver's answers. Messages go
// out as actions. The unacknowledged bytes never exceed the receiver's window, nor what the network
// has shown to take (flight_limit.h). A checkpoint, or the commit, waits until everything that it
// covers is acknowledged. However the push ends, the blocks are given back when the last slice that
// points into them is destroyed.
//
// Stream 0 carries open, checkpoints and commit. Once the open was answered, other streams may join
// and carry data too: each message goes on the stream with the fewest unacknowledged bytes. The
// push ends with stream 0. A joined stream that is refused, lost or silent gives its messages to
// the other streams.
//
// Acknowledgements carry no CRC. A damaged one at worst acknowledges a message that was not
// received; then the receiver refuses the commit. A message whose acknowledgement does not come is
// repeated.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_digest.h"
#include "common/handoff/kv_wire.h"
#include "common/handoff/kv_wire_type.h"
#include "common/kv/layout.h"
#include "prefill_worker/send_window.h"

namespace baton {

// Bounds of one push in bytes and time.
struct KvSenderLimits {
  size_t max_payload_bytes = kMaxKvPayloadBytes;  // also at most a third of the flight limit
  // Layers of one chunk wait for each other until a message has this many bytes. The chunk's last
  // layer ends the wait.
  size_t min_payload_bytes = size_t{1} << 20;
  absl::Duration open_timeout = absl::Seconds(10);
  // How long a stream with unacknowledged messages may stay without any answer.
  absl::Duration ack_timeout = absl::Seconds(20);
  absl::Duration commit_timeout = absl::Seconds(10);
  // A peer that does not answer an abort is cancelled after abort_timeout + close_timeout, and its
  // connections are given up after one more close_timeout: within 3 s the blocks are back.
  absl::Duration abort_timeout = absl::Milliseconds(500);
  absl::Duration close_timeout = absl::Seconds(1);
  absl::Duration push_timeout = absl::Minutes(10);  // for the whole push
};

// What the push moved and how long it took, on the sender's clock.
struct KvSendReport {
  uint64_t bytes_sent = 0;    // payload bytes of first sends
  uint64_t bytes_saved = 0;   // payload bytes that the receiver held already
  uint64_t bytes_resent = 0;  // payload bytes sent again: refused, or the stream or answer was lost
  uint32_t messages = 0;
  uint32_t stale_messages = 0;  // messages whose blocks went to somebody else while they were sent
  bool committed = false;       // false with an OK status: the first token ended the request
  // From the first byte sent (or, where all was computed before the open was answered, from the
  // last chunk computed) to the answer to the commit.
  absl::Duration transfer;
  absl::Duration exposed_transfer;  // from the last chunk computed to the answer to the commit
};

// Has no clock, socket, thread or randomness inside. Thread rule: one thread, the driver's.
class KvSender {
 public:
  struct Config {
    internal::v1::PushOpen open;     // sent as it is; REQUIRES: its wire_dtype is a known one
    KvLayout layout;                 // layout of the sender's cache
    std::vector<int32_t> token_ids;  // the whole sequence; open.token_count ids
    KvSenderLimits limits;
    int choices = 1;  // choices of the sequence: the commit has a first token for each
    int streams = 1;  // most streams that carry data, 1 to kMaxKvStreams; a short prompt uses fewer
  };

  // Events. `stream`: 0 is the push's own, the others joined it.
  struct Begin {};  // the prompt has started
  // K and V of tokens [first_token, first_token + token_count) in `layer` will not change any more.
  // REQUIRES: first_token is a multiple of 16; the tokens are whole pages, except at the sequence's
  // end; each page of a layer is announced once.
  struct LayerReady {
    int layer = 0;
    int first_token = 0;
    int token_count = 0;
    std::vector<uint32_t> page_crcs;  // CRC32C of each page as it goes over the wire
  };
  // Sends what was announced without waiting for more layers, which come only after it is sent.
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
    bool intact = true;    // false: one of its blocks was given to somebody else before
  };
  struct Tick {};
  using Event = std::variant<Begin, LayerReady, Flush, ChunkReady, FirstToken, Abort, Response,
                             StreamEnded, SlicesReleased, Tick>;

  // Actions, to be executed in order.
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
    KvSendReport report;
  };
  struct ReleaseBlocks {};  // comes once, after Finished: nothing points into the blocks any more
  using Action = std::variant<OpenStream, SendControl, SendData, HalfClose, CancelStream,
                              DropChannel, Finished, ReleaseBlocks>;

  enum class State { kIdle, kOpening, kSending, kCommitting, kAborting, kClosing, kGone };

  explicit KvSender(Config config);

  std::vector<Action> Handle(const Event& event, absl::Time now);
  // When to send Tick at the latest.
  absl::Time NextDeadline() const;
  // The blocks are released and the streams have ended, so events have no effect any more.
  bool gone() const { return state_ == State::kGone; }
  State state() const { return state_; }
  // The first token that the receiver does not hold. REQUIRES: the open was answered.
  int start_token() const { return start_token_; }
  // Payload bytes that the network has shown to take at once.
  uint64_t flight_limit_bytes() const { return unacknowledged_.flight_limit_bytes(); }
  // Whether the message may have to be sent once more.
  bool MaySendAgain(uint64_t sequence_number) const {
    return unacknowledged_.messages().count(sequence_number) > 0;
  }

 private:
  friend struct MachineState;  // a test compares states with it
  struct Range {
    int layer = 0;
    int first_token = 0;
    int end_token = 0;
    bool waits = true;  // whether it waits for more layers where the message would be small
  };

  void On(const Begin&);
  void On(const LayerReady& event);
  void On(const Flush&);
  void On(const ChunkReady& event);
  void On(const FirstToken& event);
  void On(const Abort& event);
  void On(const Response& event);
  void On(const StreamEnded& event);
  void On(const SlicesReleased& event);
  void On(const Tick&);

  void OnOpened(const internal::v1::PushOpened& opened);
  void OnAck(const internal::v1::PushAck& ack, int stream);
  void OnRefused(const internal::v1::PushRefused& refused, int stream);
  void JoinStreams();
  void LoseStream(int stream);
  void CloseJoinedStreams();
  void Resend(const internal::v1::PushRefused& refused);
  void SendAgain(uint64_t sequence_number);
  void Repeat(uint64_t sequence_number);
  void Pump();
  bool SendNextMessage();
  size_t PayloadLimit() const;
  std::optional<Range> NextMessage(size_t* layers) const;
  void SendCheckpoint();
  void SendCommit();
  std::string Digest(int end_token, absl::Span<const internal::v1::OutputToken> first_tokens);
  bool CoveredBefore(int end_token) const;
  internal::v1::KvDataHeader MakeHeader(int first_layer, int layer_count, int first_token,
                                        int token_count);
  void StartAbort(internal::v1::PushAbort::Reason reason, absl::Status status);
  void Finish(absl::Status status);
  void CleanUp();
  size_t page_bytes() const { return token_bytes_ * static_cast<size_t>(kKvPageTokens); }
  bool WindowHoldsAPage() const { return window_bytes_ >= page_bytes(); }
  bool Active() const { return state_ == State::kSending || state_ == State::kCommitting; }

  const Config config_;
  const size_t token_bytes_;  // K and V of one token in one layer, on the wire
  State state_ = State::kIdle;
  absl::Time now_;
  absl::Time started_;
  absl::Time deadline_ = absl::InfiniteFuture();  // deadline of the state
  std::vector<Action> actions_;

  std::deque<Range> computed_;   // computed ranges that were not sent yet: at most layers x chunks
  std::deque<int> checkpoints_;  // ends of chunks without a checkpoint yet, ascending
  PageCrcTable crcs_;
  KvDigester digester_;
  int start_token_ = 0;
  uint64_t window_bytes_ = 0;
  uint64_t next_sequence_number_ = 1;
  SendWindow unacknowledged_;
  std::vector<internal::v1::OutputToken> first_tokens_;
  absl::Status abort_status_;

  std::set<int> streams_;  // streams that were opened and have not ended
  bool cancelled_ = false;
  bool finished_ = false;
  bool released_ = false;
  int live_messages_ = 0;  // number of SendData whose slices still exist
  absl::Time first_sent_ = absl::InfinitePast();
  absl::Time last_computed_ = absl::InfinitePast();
  KvSendReport report_;
};

}  // namespace baton
