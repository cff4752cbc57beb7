// Counts the steps of an engine that are in flight, and keeps what they may still touch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/engine/sequence.h"
#include "common/kv/block_pool.h"

namespace baton {

// Steps are numbered from 1 and end in the order in which they began.
// Thread rule: one thread, the engine's. Must not outlive the pool of the blocks that it keeps.
class StepsInFlight {
 public:
  // A sequence or block that is used only by steps in flight.
  struct Leaving {
    uint64_t last_step = 0;  // number of the last step that may touch it
    std::unique_ptr<Sequence> sequence = nullptr;
    BlockPool::Block block = {};
  };

  // One more step is in flight. Returns its number.
  uint64_t Enqueued() { return ++enqueued_; }
  // Whether a step in flight may touch the sequence.
  bool Have(const Sequence& sequence) const { return sequence.last_step > done_; }
  // Keeps what is leaving until its last step is done. REQUIRES: that step is in flight.
  void Keep(Leaving leaving);
  // Ends the oldest step in flight. Returns the sequences and blocks that only this step used.
  // Destroying the result gives them back; until then the pointers in the step's schedule are
  // valid. REQUIRES: a step is in flight.
  std::vector<Leaving> Done();

 private:
  uint64_t enqueued_ = 0;
  uint64_t done_ = 0;
  std::vector<Leaving> leaving_;
};

}  // namespace baton
