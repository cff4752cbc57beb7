// The engine of a simulated prefill worker: computes prompts chunk by chunk and layer by layer, and
// announces each layer to the sender of its push.
#pragma once

#include <functional>

#include "tests/simulation/prefill_worker/prefill_call_table.h"
#include "tests/simulation/prefill_worker/prefill_pushes.h"
#include "tests/simulation/worker_core.h"

namespace baton {

class PrefillEngine {
 public:
  // `prompt_done` is told a moment after a prompt's last chunk was computed.
  PrefillEngine(Sim& sim, WorkerCore& core, PrefillBlocks& blocks, PrefillCallTable& table,
                PrefillPushes& pushes, std::function<void(SimAttemptId)> prompt_done);

  // The call has its blocks.
  void Begin(SimAttemptId id);

 private:
  void Compute(SimAttemptId id, int layer);
  void ComputeLayer(SimAttemptId id, SimPrefillCall& call, int layer);
  void CheckWindow(const SimPrefillCall& call);
  void TellReady(const SimPrefillCall& call, int layer, int first, int end);
  void ChunkDone(SimAttemptId id);
  bool MustWait(SimAttemptId id) const;
  void MaybeForge(const SimPrefillCall& call, int layer, int first, int end);
  void MaybeRot(const SimPrefillCall& call, int layer, int token);

  Sim& sim_;
  WorkerCore& core_;
  PrefillBlocks& blocks_;
  PrefillCallTable& table_;
  PrefillPushes& pushes_;
  const std::function<void(SimAttemptId)> prompt_done_;
};

}  // namespace baton
