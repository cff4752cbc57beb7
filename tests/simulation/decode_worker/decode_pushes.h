// The pushes that a simulated decode worker receives: a real ReceiveMachine for each, the messages
// that it holds, and its copies into the blocks.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "decode_worker/payload_copier.h"
#include "decode_worker/receive_machine.h"
#include "tests/simulation/decode_worker/copied_pages.h"
#include "tests/simulation/decode_worker/decode_call_table.h"
#include "tests/simulation/network/network.h"

namespace baton {

class DecodePushes {
 public:
  // The calls that pushes are for.
  struct Calls {
    // Turns a reservation into blocks, and tells how many tokens are there. None: too late.
    std::function<std::optional<int>(SimAttemptId)> take_blocks;
    std::function<void(SimAttemptId, const ReceiveAction::CommitSequence&)> commit;
    std::function<void(SimAttemptId, const absl::Status&)> failed;
    std::function<void(SimAttemptId, const ReceiveAction::ReleaseBlocks&)> release;
  };

  // Draws how the worker receives.
  DecodePushes(Sim& sim, Network& network, SimProcess& process, DecodeBlocks& blocks,
               DecodeCallTable& table, Calls calls);

  // From here on a push for the call may come.
  void Expect(SimAttemptId id);
  bool Expects(SimAttemptId id) const { return pushes_.count(id) > 0; }
  void Cancel(SimAttemptId id, internal::v1::PushRefused::Reason reason);
  void Crash();

  // The network's.
  void Request(Network::StreamId stream, const std::string& bytes);
  void Lost(Network::StreamId stream);

  size_t streams() const { return streams_.size(); }

 private:
  struct Push {
    SimDecodeCall& call;
    ReceiveMachine receiver;
    CopiedPages pages;
    std::map<uint64_t, KvDataMessage> messages = {};
    std::map<uint64_t, ReceiveAction::Copy> copies = {};
    std::set<Network::StreamId> streams = {};
    Micros timer = -1;
  };

  Push* Find(SimAttemptId id);
  void Open(Network::StreamId stream, const std::string& bytes);
  void Deliver(SimAttemptId id, const ReceiveEvent::Any& event);
  void Execute(SimAttemptId id, Push& push, const ReceiveAction::Any& action);
  void EraseSoon(SimAttemptId id);
  void Grant(SimAttemptId id);
  void Send(const Push& push, const ReceiveAction::Send& send);
  bool MayWrite(const SimDecodeCall& call, const LayerTokens& range) const;
  void BeginCopy(SimAttemptId id, Push& push, const ReceiveAction::Copy& copy);
  void FinishCopy(SimAttemptId id, uint64_t copy_id);
  void Arm(SimAttemptId id, Push& push);

  Sim& sim_;
  Network& network_;
  SimProcess& process_;
  DecodeBlocks& blocks_;
  DecodeCallTable& table_;
  const Calls calls_;
  const uint64_t window_bytes_;
  const Micros receive_timeout_;
  std::map<SimAttemptId, Push> pushes_;
  std::map<Network::StreamId, SimAttemptId> streams_;
  uint64_t next_message_id_ = 1;
};

}  // namespace baton
