// Prompts that a simulated decode worker computes itself, chunk by chunk.
#pragma once

#include "tests/simulation/decode_worker/decode_call_table.h"
#include "tests/simulation/decode_worker/decode_engine.h"
#include "tests/simulation/worker_core.h"

namespace baton {

class LocalPrefill {
 public:
  LocalPrefill(Sim& sim, WorkerCore& core, DecodeBlocks& blocks, DecodeCallTable& table,
               DecodeEngine& engine)
      : sim_(sim), core_(core), blocks_(blocks), table_(table), engine_(engine) {}

  // The call has its reservation.
  void Begin(SimAttemptId id);

 private:
  void ComputeChunk(SimAttemptId id);
  void TakeBlocks(SimDecodeCall& call);
  void TellProgress(const SimDecodeCall& call);
  void Finish(SimAttemptId id);

  Sim& sim_;
  WorkerCore& core_;
  DecodeBlocks& blocks_;
  DecodeCallTable& table_;
  DecodeEngine& engine_;
};

}  // namespace baton
