// The decode worker's end of one hand-off, as a pure state machine. It decides every write into the
// blocks. Its mirror at the prefill worker is prefill_worker/send_machine.h.
//
//   reserved -> open -> receiving -> committed -> gone
//          \_______ \____________ draining ____ /
//
// reserved:  blocks are reserved, only by their number
// open:      the push is authenticated, the engine takes the blocks
// receiving: pages fill (received_pages.h)
// committed: all KV is there and belongs to the sequence
// draining:  the push is over and copies are still in flight; the blocks are given back at the last
//            CopyDone
//
// The stream that opened the push carries its checkpoints and its commit; when it is lost, the push
// ends. Streams that joined carry data only. One that is lost is forgotten: its messages that are
// in copy finish, and are not acknowledged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_digest.h"
#include "decode_worker/data_receiver.h"
#include "decode_worker/push_streams.h"
#include "decode_worker/receive_events.h"

namespace baton {

// Has no clock, socket, thread or randomness inside. Thread rule: one thread, the driver's.
class ReceiveMachine {
 public:
  enum class State { kReserved, kOpen, kReceiving, kCommitted, kDraining, kGone };

  ReceiveMachine(ReceiveConfig config, absl::Time now);

  std::vector<ReceiveAction::Any> Handle(const ReceiveEvent::Any& event, absl::Time now);
  // When to send Tick at the latest.
  // tests/planted_bugs: expiry_only_on_new_work
  absl::Time NextDeadline() const { return deadline_; }
  State state() const { return state_; }

 private:
  friend struct MachineState;  // a test compares states with it
  void On(const ReceiveEvent::ControlReceived& event);
  void On(const ReceiveEvent::DataReceived& event);
  void On(const ReceiveEvent::Malformed& event);
  void On(const ReceiveEvent::StreamLost& event);
  void On(const ReceiveEvent::Granted& event);
  void On(const ReceiveEvent::CopyDone& event);
  void On(const ReceiveEvent::Cancelled& event);
  void On(const ReceiveEvent::Tick&);
  void On(const ReceiveEvent::EventsLost&);

  void OnOpen(const ReceiveEvent::ControlReceived& event);
  void OnJoin(const ReceiveEvent::ControlReceived& event);
  // Checks key and capability of a stream, and who its peer is. If they are wrong the stream is
  // turned away.
  bool Authenticate(const ReceiveEvent::ControlReceived& event, const internal::v1::AttemptKey& key,
                    const std::string& capability);
  void TurnAway(PushStreamId stream, internal::v1::PushRefused::Reason reason,
                const std::string& detail);
  void ExpectMore();
  void OnCheckpoint(const internal::v1::PushCheckpoint& checkpoint);
  void OnCommit(const internal::v1::PushCommit& commit);
  void FailIf(std::optional<DataReceiver::Failure> failure);
  void Fail(internal::v1::PushRefused::Reason reason, absl::Status status);
  // As Fail, before a push was opened.
  void EndReservation(absl::Status status);
  void Drain();
  // Whether the push is open and goes on.
  bool Active() const { return state_ == State::kOpen || state_ == State::kReceiving; }

  const ReceiveConfig config_;
  const int token_count_;
  const absl::Time capability_expires_;  // whatever state the push is in then
  State state_ = State::kReserved;
  absl::Time now_;
  absl::Time deadline_;
  std::vector<ReceiveAction::Any> actions_;

  PushStreams streams_;
  absl::Time push_deadline_;  // deadline of the commit; set in `open`
  bool exact_ = false;
  // The tokens whose pages may serve the next attempt at this request: up to the last checkpoint
  // that both ends agreed on, or what was held at the start.
  int checkpointed_tokens_ = 0;
  bool resumable_ = true;  // false when the request ends with this attempt
  DataReceiver data_;
};

}  // namespace baton
