// The decode worker of a HandoffPair: a real ReceiveMachine, the messages that it holds, and its
// copies, by way of a real StagedCopier if its blocks are a device's.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decode_worker/payload_copier.h"
#include "decode_worker/receive_machine.h"
#include "decode_worker/staged_copier.h"
#include "tests/decode_worker/handoff_pair/pair_memory.h"
#include "tests/decode_worker/handoff_pair/pair_network.h"
#include "tests/decode_worker/handoff_pair/pair_oracle.h"

namespace baton {

class PairReceiver {
 public:
  PairReceiver(PairRun& run, PairMemory& memory, PairNetwork& network, PairOracle& oracle)
      : run_(run), memory_(memory), network_(network), oracle_(oracle) {}

  void Start(const internal::v1::PushOpen& open, const std::vector<int32_t>& token_ids);
  // The network's: an encoded PushRequest, in slices as they come.
  void Message(PushStreamId stream, const std::string& bytes);
  void Deliver(const ReceiveEvent::Any& event);
  // What becomes possible when something was delivered.
  void Settle();

  // What its copies may do next: the host's, or the device's and what was staged for it.
  bool has_host_copy() const { return !copies_.empty() && !copier_.has_value(); }
  void FinishHostCopy();
  bool has_copy() const { return copier_.has_value() && memory_.backend->copies().to_device() > 0; }
  void EndCopy();
  bool has_staged() const { return !staged_.empty(); }
  void NextStaged();

  const ReceiveMachine& machine() const { return *machine_; }
  bool committed() const { return committed_; }
  bool released() const { return released_; }
  std::optional<int> resume_tokens() const { return resume_tokens_; }
  int refusals() const { return refusals_; }
  // Once nothing more can happen.
  void CheckAtRest() const;

 private:
  void Send(const ReceiveAction::Send& send);
  void BeginCopy(const ReceiveAction::Copy& copy);
  void CopyIsDone(const ReceiveEvent::CopyDone& done);
  void Release(const ReceiveAction::ReleaseBlocks& release);

  PairRun& run_;
  PairMemory& memory_;
  PairNetwork& network_;
  PairOracle& oracle_;
  std::optional<ReceiveMachine> machine_;
  std::map<uint64_t, KvDataMessage> messages_;
  uint64_t next_message_id_ = 1;
  std::vector<ReceiveAction::Copy> copies_;
  std::optional<StagedCopier> copier_;  // for blocks in a device's memory
  std::deque<StagedCopier::Event> staged_;
  std::vector<ReceiveAction::Copy> new_copies_;  // not yet given to the copier
  bool granted_ = false;
  bool committed_ = false;
  bool released_ = false;
  std::optional<int> resume_tokens_;
  int refusals_ = 0;
};

}  // namespace baton
