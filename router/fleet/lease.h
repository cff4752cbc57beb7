// The router's count of what it gave to workers.
#pragma once

#include <cstdint>

#include "router/fleet/fleet.h"

namespace baton {

// What one attempt holds of its workers: a sequence on each, and a place for its prompt on the one
// that computes it. A value that gives itself back: the destructor takes from the workers' counts
// what the constructor added. Workers that are gone meanwhile are left out. On the loop's thread
// only; must not outlive the fleet.
class Lease {
 public:
  struct Terms {
    uint64_t prefill = 0;          // a worker's id; 0: the prompt is computed on the decode worker
    uint64_t decode = 0;           // a worker's id; 0: one token remains, the prefill worker's
    uint32_t prompt_tokens = 0;    // tokens of the prompt, output of earlier attempts included
    uint32_t computed_tokens = 0;  // prompt tokens that the worker which computes it does not hold
    bool alone = false;            // its workers take nothing else until the prompt is computed
  };

  // REQUIRES: at least one of the two workers, and they are in the fleet and take requests.
  Lease(Fleet& fleet, const Terms& terms);
  Lease(Lease&& other) noexcept;
  ~Lease();

  const Terms& terms() const { return terms_; }
  // What the breaker of that worker returned when the attempt was given to it. REQUIRES: it is
  // one of the two.
  uint64_t begun(uint64_t worker_id) const {
    return worker_id == terms_.prefill ? prefill_begun_ : decode_begun_;
  }

  // The decode worker has no memory for the prompt so far: it holds no place on its prefill worker
  // until PromptComes. Does nothing for a prompt that is computed, or on the decode worker.
  void PromptPostponed();
  // The prefill worker gets the prompt.
  void PromptComes();
  // The prompt is computed: its worker has room for another. False when that was said before.
  bool PromptComputed();

 private:
  Fleet* fleet_;  // null when moved from
  Terms terms_;
  uint64_t prefill_begun_ = 0;
  uint64_t decode_begun_ = 0;
  bool prompt_waits_ = true;  // the prompt is not computed
  bool postponed_ = false;
};

}  // namespace baton
