// The prefill worker's end of one hand-off, as a pure state machine. Its mirror at the decode
// worker is decode_worker/receive_machine.h.
//
//   idle -> opening -> sending -> committing -> closing -> gone
//                 \________ aborting ________/
//
// Computed layers come in as events, in any order relative to the receiver's answers. Messages go
// out as actions (data_sender.h). A checkpoint, or the commit, waits until everything that it
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
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "prefill_worker/data_sender.h"
#include "prefill_worker/send_events.h"

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
  const DataSender& data() const { return data_; }

 private:
  friend struct MachineState;  // a test compares states with it

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
  void On(const SendEvent::Alive&);

  void OnOpened(const internal::v1::PushOpened& opened);
  void OnAck(const internal::v1::PushAck& ack, int stream);
  void OnRefused(const internal::v1::PushRefused& refused, int stream);
  void JoinStreams(int count);
  void SendCheckpoint();
  void SendCommit();
  // The end of the push whose stream 0 has ended with `end`, with its fault (worker_status.h).
  absl::Status WhyBroken(const absl::Status& end) const;
  // The open was answered and nothing of the KV acknowledged for long. WhatPassed says so.
  bool OnlySmallMessagesPass() const;
  std::string WhatPassed() const;
  void StartAbort(internal::v1::PushAbort::Reason reason, absl::Status status);
  void Finish(absl::Status status);
  void CleanUp();
  bool Active() const { return state_ == State::kSending || state_ == State::kCommitting; }

  const SendConfig config_;
  State state_ = State::kIdle;
  absl::Time now_;
  absl::Time started_;
  absl::Time deadline_ = absl::InfiniteFuture();  // deadline of the state
  std::vector<SendAction::Any> actions_;

  DataSender data_;
  std::deque<int> checkpoints_;  // ends of chunks without a checkpoint yet, ascending
  std::vector<internal::v1::OutputToken> first_tokens_;
  absl::Status abort_status_;

  std::set<int> streams_;     // streams that were opened and have not ended
  bool takes_signs_ = false;  // the receiver knows signs of life
  bool cancelled_ = false;
  bool finished_ = false;
  bool committed_ = false;
  bool released_ = false;
};

}  // namespace baton
