// The decode worker's side of one request: a real ReceiveMachine, the messages that it holds and
// its copies.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "decode_worker/receive_machine.h"
#include "tests/simulation/interleavings/interleaved_stream.h"
#include "tests/simulation/interleavings/worker_blocks.h"

namespace baton {

// A value: copies go their own ways. What it does to stream and blocks it does to those it is
// given.
class InterleavedReceiver {
 public:
  static constexpr PushStreamId kStream = 1;

  InterleavedReceiver(int request, int messages) : request_(request), messages_(messages) {}

  void Start(InterleavedBlocks& blocks);  // with its reservation
  void Grant(InterleavedStream& stream, InterleavedBlocks& blocks);
  // The next message of the stream arrives.
  void Deliver(InterleavedStream& stream, InterleavedBlocks& blocks);
  void FinishCopy(uint64_t copy_id, InterleavedStream& stream, InterleavedBlocks& blocks);
  void Handle(const ReceiveEvent::Any& event, InterleavedStream& stream, InterleavedBlocks& blocks,
              absl::Time now = absl::UnixEpoch());
  void Kill();

  bool started() const { return machine_ != nullptr; }
  bool runs() const { return started() && !over_; }
  bool over() const { return over_; }  // its blocks are back, or its worker was killed
  bool wants_blocks() const;
  bool committed() const { return committed_; }
  bool holds_messages() const { return !held_.empty(); }
  const std::map<uint64_t, ReceiveAction::Copy>& copies() const { return copies_; }
  absl::Time deadline() const { return machine_->NextDeadline(); }

  // Everything that the future depends on.
  void AppendState(std::string& out) const;

 private:
  struct Held {  // its pages are of that request's blocks
    internal::v1::KvDataHeader header;
    int content = 0;
  };

  void Execute(const ReceiveAction::Any& action, InterleavedStream& stream,
               InterleavedBlocks& blocks);
  void Commit(InterleavedBlocks& blocks);
  void BeginCopy(const ReceiveAction::Copy& copy, InterleavedBlocks& blocks);

  int request_;
  int messages_;
  std::shared_ptr<const ReceiveMachine> machine_;
  bool asked_for_blocks_ = false;
  bool granted_ = false;
  bool committed_ = false;
  bool failed_ = false;
  bool over_ = false;
  uint64_t next_message_id_ = 1;
  std::map<uint64_t, Held> held_;
  std::map<uint64_t, ReceiveAction::Copy> copies_;
  std::set<int> in_copy_, right_;  // pages
};

}  // namespace baton
