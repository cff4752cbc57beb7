// The pushes of a simulated prefill worker: a real SendMachine for each, and the messages on their
// way that point into its blocks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "prefill_worker/send_machine.h"
#include "tests/simulation/network/network.h"
#include "tests/simulation/prefill_worker/prefill_call_table.h"
#include "tests/simulation/worker_core.h"

namespace baton {

class PrefillPushes {
 public:
  // The calls that push.
  struct Calls {
    std::function<void(SimAttemptId, const absl::Status&)> finished;
    std::function<void(SimAttemptId)> give_blocks_back;
  };

  // Draws how the worker sends.
  PrefillPushes(Sim& sim, Network& network, WorkerCore& core, PrefillBlocks& blocks,
                PrefillCallTable& table, Calls calls);

  // A push for the call: it and the call are erased when the sender is gone.
  void Add(SimAttemptId id);
  bool Has(SimAttemptId id) const { return pushes_.count(id) > 0; }
  // To the call's sender, if there is one.
  void Deliver(SimAttemptId id, const SendEvent::Any& event);
  void Crash();

  // The network's.
  void Answer(Network::StreamId stream, const std::string& bytes);
  void Ended(Network::StreamId stream, const absl::Status& status);

 private:
  struct Push {
    SimPrefillCall& call;
    SendMachine sender;
    int live_messages = 0;
    Micros timer = -1;
    std::map<int, Network::StreamId> streams = {};  // open streams by the sender's number
  };

  Push* Find(SimAttemptId id);
  void Execute(Push& push, const SendAction::Any& action);
  void SendControl(const Push& push, int stream, const internal::v1::PushRequest& message);
  void SendData(Push& push, const SendAction::SendData& data);
  void SlicesReleased(SimAttemptId id, const std::vector<int32_t>& blocks);
  std::string Flatten(SimAttemptId id, const internal::v1::KvDataHeader& header);
  void Arm(SimAttemptId id, Push& push);

  Sim& sim_;
  Network& network_;
  WorkerCore& core_;
  PrefillBlocks& blocks_;
  PrefillCallTable& table_;
  const Calls calls_;
  const size_t max_payload_bytes_;
  const size_t min_payload_bytes_;
  const int max_streams_;
  std::map<SimAttemptId, Push> pushes_;
  std::map<Network::StreamId, std::pair<SimAttemptId, int>> streams_;  // the sender's number
};

}  // namespace baton
