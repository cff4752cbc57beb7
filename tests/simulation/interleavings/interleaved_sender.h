// The prefill worker's side of one request: a real SendMachine, and what the engine gives it.
#pragma once

#include <memory>
#include <string>

#include "prefill_worker/send_machine.h"
#include "tests/simulation/interleavings/interleaved_stream.h"
#include "tests/simulation/interleavings/worker_blocks.h"

namespace baton {

// A value: copies go their own ways. What it does to stream and blocks it does to those it is
// given.
class InterleavedSender {
 public:
  InterleavedSender(int request, int messages) : request_(request), messages_(messages) {}

  void Start(InterleavedStream& stream, InterleavedBlocks& blocks);
  void Compute(InterleavedStream& stream, InterleavedBlocks& blocks);
  void MakeFirstToken(InterleavedStream& stream, InterleavedBlocks& blocks);
  void Handle(const SendEvent::Any& event, InterleavedStream& stream, InterleavedBlocks& blocks,
              absl::Time now = absl::UnixEpoch());
  void Kill() { over_ = true; }

  bool started() const { return machine_ != nullptr; }
  bool runs() const { return started() && !over_; }
  bool over() const { return over_; }  // gone, or its worker was killed
  bool computed() const { return computed_; }
  bool first_token_made() const { return first_token_made_; }
  absl::Time deadline() const { return machine_->NextDeadline(); }

  // Everything that the future depends on.
  void AppendState(std::string& out) const;

 private:
  void Execute(const SendAction::Any& action, InterleavedStream& stream, InterleavedBlocks& blocks);

  int request_;
  int messages_;
  std::shared_ptr<const SendMachine> machine_;
  bool computed_ = false;
  bool first_token_made_ = false;
  bool over_ = false;
};

}  // namespace baton
