// Matrix products: out[r][n] = the sum over k of in[r][k] * weight[n][k].
//
// Float weights: sum = fma(weight, in, sum), k ascending from +0, the weight widened exactly.
// Quantised weights, blocks ascending from +0, with s the exact integer sum of (code - offset) *
// value over a block:
//   Q4_0, Q8_0:  sum = fma(s, weight scale * input scale, sum)
//   Q4_1:        sum = fma(s, weight scale * input scale, sum), then
//                sum = fma(min, input scale * (the sum of the block's values), sum)
// Vector lanes hold outputs, so neither their number nor the tile of rows changes a bit.
#pragma once

#include "absl/types/span.h"

#include "common/backend/backend.h"
#include "common/backend/cpu/cpu_weight.h"
#include "common/backend/cpu/isa.h"
#include "common/backend/cpu/quantize.h"
#include "common/backend/cpu/thread_pool.h"

namespace baton {

// REQUIRES: out [in.rows, weight.rows()]; `quantised` holds `in` where the weight is quantised.
void MultiplyWeight(CpuIsa isa, ThreadPool& pool, Tensor in, const QuantizedRows& quantised,
                    const CpuWeight& weight, Tensor out);

}  // namespace baton
