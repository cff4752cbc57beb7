// The prefill worker of a HandoffPair: a real SendMachine, what its engine gives it, and its
// blocks, by way of a real LayerStager if they are a device's.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "prefill_worker/layer_stager.h"
#include "prefill_worker/send_machine.h"
#include "tests/decode_worker/handoff_pair/pair_memory.h"
#include "tests/decode_worker/handoff_pair/pair_network.h"
#include "tests/decode_worker/handoff_pair/pair_oracle.h"

namespace baton {

class PairSender {
 public:
  PairSender(PairRun& run, PairMemory& memory, PairNetwork& network, PairOracle& oracle)
      : run_(run), memory_(memory), network_(network), oracle_(oracle) {}

  void Start(const internal::v1::PushOpen& open, const std::vector<int32_t>& token_ids);
  void Deliver(const SendEvent::Any& event);
  // What becomes possible when something was delivered.
  void Settle();

  // What its engine and its device may do next.
  bool has_engine_event() const { return next_engine_event_ < engine_events_.size(); }
  void NextEngineEvent();
  bool has_copy() const { return stager_.has_value() && memory_.backend->copies().to_host() > 0; }
  void EndCopy();
  bool has_staged() const { return !staged_.empty(); }
  void NextStaged();

  const SendMachine& machine() const { return *machine_; }
  const std::optional<absl::Status>& status() const { return status_; }
  const SendReport& report() const { return report_; }
  // Once nothing more can happen.
  void CheckAtRest() const;

 private:
  void AddEngineEvents();
  bool IsStaged(const SendEvent::Any& event);
  void SendData(const SendAction::SendData& data);

  PairRun& run_;
  PairMemory& memory_;
  PairNetwork& network_;
  PairOracle& oracle_;
  std::optional<SendMachine> machine_;
  std::vector<SendEvent::Any> engine_events_;  // events of the prefill, in order
  size_t next_engine_event_ = 0;
  std::optional<LayerStager> stager_;  // for blocks in a device's memory
  std::deque<LayerStager::Event> staged_;
  std::vector<uint32_t> generations_;
  int slices_alive_ = 0;
  bool may_release_ = false;
  bool released_ = false;
  std::optional<absl::Status> status_;
  SendReport report_;
};

}  // namespace baton
