// What a simulated decode worker does with the router's Decode calls, from the reservation over the
// commit to the end.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "tests/simulation/decode_worker/decode_audit.h"
#include "tests/simulation/decode_worker/decode_engine.h"
#include "tests/simulation/decode_worker/decode_pushes.h"
#include "tests/simulation/decode_worker/local_prefill.h"

namespace baton {

class DecodeCalls {
 public:
  // Where the work of a call is done.
  struct Parts {
    DecodeBlocks& blocks;
    DecodeCallTable& table;
    DecodeEngine& engine;
    LocalPrefill& local_prefill;
    DecodePushes& pushes;
    DecodeAudit& audit;
  };
  DecodeCalls(Sim& sim, ControlNetwork& control, WorkerCore& core, const Parts& parts)
      : sim_(sim), control_(control), core_(core), parts_(parts) {}

  void Crash();

  // The router's.
  void Received(ControlNetwork::CallId rpc, const internal::v1::DecodeRequest& request);
  void Cancelled(ControlNetwork::CallId rpc);

  // Its push's: see DecodePushes::Calls.
  std::optional<int> TakeBlocks(SimAttemptId id);
  void Commit(SimAttemptId id, const ReceiveAction::CommitSequence& commit);
  void Fail(SimAttemptId id, const absl::Status& status);
  void Release(SimAttemptId id, const ReceiveAction::ReleaseBlocks& release);

  // One choice has ended or is to; the call ends with the last.
  void EndChoice(SimAttemptId id, uint32_t number);
  // Every call gets a sign of life, also one that waits.
  void GiveSigns();
  // Ends what runs, as a worker does whose time to drain is up.
  void EndAll();
  // Ends what may rest on KV that came from this source. Nobody finds any KV any more.
  void Distrust(const std::string& source);
  // Blocks came back: first those that gave way go on, then new calls begin.
  void GoOn();

  size_t waiting() const { return waiting_.size(); }

 private:
  void Start(ControlNetwork::CallId rpc, const internal::v1::DecodeStart& start);
  void AdmitWaiting();
  void Begin(SimAttemptId id);
  // The router's call ends, and the attempt with it.
  void End(SimAttemptId id, const absl::Status& status,
           internal::v1::PushRefused::Reason reason = internal::v1::PushRefused::REASON_ABORTED);
  void EndCall(SimDecodeCall& call, const absl::Status& status);
  void EndAttempt(SimAttemptId id, internal::v1::PushRefused::Reason reason);
  bool MayRestOn(const SimDecodeCall& call, const std::string& source) const;
  void GiveBack(SimDecodeCall& call);
  void RefuseCommit(SimDecodeCall& call, const absl::Status& status);
  void Retain(const SimDecodeCall& call, int tokens);
  void GoOnSoon();

  Sim& sim_;
  ControlNetwork& control_;
  WorkerCore& core_;
  const Parts parts_;
  std::map<ControlNetwork::CallId, SimAttemptId> rpcs_;  // calls that have not ended
  std::deque<SimAttemptId> waiting_;                     // for their reservation
  uint64_t next_order_ = 1;
};

}  // namespace baton
