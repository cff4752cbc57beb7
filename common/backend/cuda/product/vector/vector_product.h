// Products of 1 to 4 rows, at the speed at which the weight can be read: out = in x weight^T, or
// out += scale * in x weight^T, in one rounding.
//
// Activations are float32 in shared memory, normalised or gated on their way there:
//   kPlain  x = in
//   kNorm   x = in * (1 / sqrt(mean(in^2) + epsilon)) * gain
//   kGated  x = function(in, other)
// Weights are widened exactly and multiplied by FMA. One team of 1 to 4 warps sums each row of the
// weight. A chunk (16 bytes of weight) goes to lane chunk mod lanes of the team. A lane adds its
// chunks in ascending order, lanes are added by the tree +16, +8, +4, +2, +1, and warps in
// ascending order. The size of the team follows from the matrices' shapes alone, so the bits of a
// row depend neither on the other rows nor on the device.
//
// Bytes in flight: an H200 delivers 4.3 TB/s, which is 33 bytes per nanosecond and multiprocessor
// (132 of them), after about 1,000 ns under load. So 33 KB must be in flight on each. At one row
// two blocks of 512 threads hold five loads of 16 bytes per thread: 64 to 80 KB. Each load is
// issued anew as soon as its chunk is multiplied. The first loads, a prefetch of the next bytes into
// the L2 cache, and the gain of one row's norm are issued before the wait for the previous kernel,
// so that memory does not idle while activations are prepared. A small product is as long as the way
// from that wait to its last result: no load of what was there before begins late on it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/backend/cuda/device/operands.h"
#include "common/backend/cuda/product/product_operands.h"
#include "common/backend/cuda/weight/weight_layout.h"

namespace baton {

inline constexpr int kMaxVectorRows = 4;
// None of quantised weights, and three of 16 bits: tensor cores make more of them (product_dispatch.h).
constexpr int MaxVectorRows(CudaElement element) {
  return IsQuantised(element) ? 0 : element == CudaElement::kF32 ? kMaxVectorRows : 3;
}

// How many warps sum a row of the weights of one launch. `outputs` counts the outputs of all its
// weights of this type together.
int VectorTeamWarps(CudaElement element, int64_t outputs, int columns);

// Whether an input of kGated is better made by LaunchGatedRows first, in float32, and multiplied
// as kPlain, which gives the same bits. Otherwise every block makes all gates by itself, with about
// 35 instructions for each. A multiprocessor issues 128 instructions a clock, so 16,384 gates on
// one take 2.6 us at 1.7 GHz. In that time no more of the weights is asked for than fits into the
// L2 cache. Another kernel takes about 2 us.
bool MakeGatesFirst(int rows, int columns);

// Multiplies `input` with the weights of all outputs, with one kernel for each element type among
// them. REQUIRES: 1 to MaxVectorRows rows; 1 to kMaxVectorOutputs outputs, none of which overlaps
// the input or another.
void LaunchVectorProduct(const VectorInput& input, std::span<const VectorOutput> outputs,
                         const DeviceLimits& limits, cudaStream_t stream);

}  // namespace baton
