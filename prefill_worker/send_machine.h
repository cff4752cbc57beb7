// The prefill worker's end of one hand-off, as a pure state machine. Its mirror at the decode
// worker is decode_worker/receive_machine.h.
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
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_digest.h"
#include "common/handoff/kv_wire.h"
#include "common/handoff/kv_wire_type.h"
#include "prefill_worker/send_events.h"
#include "prefill_worker/send_window.h"

namespace baton {

// Has no clock, socket, thread or randomness inside. Thread rule: one thread, the driver's.
class SendMachine {
 public:
  enum class State { kIdle, kOpening, kSending, kCommitting, kAborting, kClosing, kGone };

  explicit SendMachine(SendConfig config);

  std::vector<SendAction::Any> Handle(const SendEvent::Any& event, absl::Time now);
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

  void On(const SendEvent::Begin&);
  void On(const SendEvent::LayerReady& event);
  void On(const SendEvent::Flush&);
  void On(const SendEvent::ChunkReady& event);
  void On(const SendEvent::FirstToken& event);
  void On(const SendEvent::Abort& event);
  void On(const SendEvent::Response& event);
  void On(const SendEvent::StreamEnded& event);
  void On(const SendEvent::SlicesReleased& event);
  void On(const SendEvent::Tick&);

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

  const SendConfig config_;
  const size_t token_bytes_;  // K and V of one token in one layer, on the wire
  State state_ = State::kIdle;
  absl::Time now_;
  absl::Time started_;
  absl::Time deadline_ = absl::InfiniteFuture();  // deadline of the state
  std::vector<SendAction::Any> actions_;

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
  SendReport report_;
};

}  // namespace baton
