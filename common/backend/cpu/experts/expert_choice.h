// The router's choice: the experts that a row goes to, and their shares.
//
// A row chooses the experts with its greatest logits. Of equal logits the lower expert's counts as
// greater; a NaN counts as -infinity. With m the greatest chosen logit, e(i) = exp(logit(i) - m),
// and the share of i is e(i) / (the sum of e over the chosen experts, ascending from +0). So the
// shares are NaN where a chosen logit is NaN, or m is infinite.
#pragma once

#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cpu/simd/isa.h"
#include "common/backend/tensor.h"

namespace baton {

struct ExpertChoice {
  int expert = 0;
  float share = 0;
};

// Writes each row's choices, experts ascending, to `choices` [rows, used]. `router` [rows, experts]
// holds the logits. REQUIRES: 1 <= used <= experts.
void ChooseExperts(CpuIsa isa, ThreadPool& pool, Tensor router, int used, ExpertChoice* choices);

}  // namespace baton
