// The prompts that a simulated prefill worker has blocks for.
#pragma once

#include <map>
#include <memory>

#include "baton/internal/v1/prefill.pb.h"
#include "tests/simulation/network/control_network.h"
#include "tests/simulation/prefill_worker/prefill_blocks.h"

namespace baton {

struct SimPrefillCall {
  SimAttempt attempt;
  SimHolding held;
  int cached_tokens = 0;
  int computed_tokens = 0;
  bool lacks_blocks = false;  // its next chunk waits for them
  bool engine_stopped = false;
  bool computed = false;
  bool pushed = false;
  bool call_over = false;  // the router's
  bool blocks_back = false;
};

class PrefillCallTable {
 public:
  PrefillCallTable(Sim& sim, ControlNetwork& control) : sim_(sim), control_(control) {}

  std::map<SimAttemptId, SimPrefillCall>& calls() { return calls_; }
  const std::map<SimAttemptId, SimPrefillCall>& calls() const { return calls_; }
  // Null: there is none, or it has ended.
  SimPrefillCall* Find(SimAttemptId id) {
    const auto found = calls_.find(id);
    return found == calls_.end() ? nullptr : &found->second;
  }

  bool Forgotten(const SimAttempt& attempt) const {
    return attempt.forgotten_at <= sim_.queue.now();
  }
  // Answers the router, unless its call is over or forgotten.
  void Tell(const SimPrefillCall& call, const internal::v1::PrefillResponse& response) {
    if (call.call_over || Forgotten(call.attempt)) return;
    control_.Answer(call.attempt.call, std::make_shared<internal::v1::PrefillResponse>(response));
  }

 private:
  Sim& sim_;
  ControlNetwork& control_;
  std::map<SimAttemptId, SimPrefillCall> calls_;
};

}  // namespace baton
