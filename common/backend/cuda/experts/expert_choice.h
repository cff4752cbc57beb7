// The router's choice on the device: the experts that a row goes to, and their shares.
//
// A row chooses the experts with its greatest logits. Of equal logits the lower expert's counts as
// greater; a NaN counts as -infinity. With m the greatest chosen logit, e(i) = exp(logit(i) - m),
// and the share of i is e(i) / (the sum of e over the chosen experts, ascending from +0). So the
// shares are NaN where a chosen logit is NaN, or m is infinite.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/tensor.h"

namespace baton {

// The most experts that a layer may have on this device: their addresses are arguments of a kernel.
inline constexpr int kMaxExperts = 512;

// Writes each row's choices, experts ascending, to `experts` and `shares` [rows, used]. `router`
// [rows, experts] holds the logits. REQUIRES: 1 <= used <= experts <= kMaxExperts; device memory.
void LaunchChooseExperts(Tensor router, int used, int32_t* experts, float* shares,
                         cudaStream_t stream);

}  // namespace baton
