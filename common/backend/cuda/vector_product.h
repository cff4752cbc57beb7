// Products of 1 to 15 rows: out = in x weight^T, or out += it, at the speed at which the weight can
// be read.
//
// Activations are float32 in shared memory, normalised or gated on their way there:
//   kPlain   x = in
//   kNorm    x = in * (1 / sqrt(mean(in^2) + epsilon)) * gain
//   kSwiGlu  x = in / (1 + exp(-in)) * other
// Weights are widened exactly and multiplied by FMA. Each row of the weight is summed by one team
// of 1 to 8 warps: a chunk (16 bytes of weight) goes to lane chunk mod lanes of the team, a lane
// adds its chunks in ascending order, lanes are added by the tree +16, +8, +4, +2, +1 and warps in
// ascending order. The size of the team follows from the matrices' shapes alone, so a row's bits
// depend neither on the other rows nor on the device.
//
// Bytes in flight: an H200 delivers 4.3 TB/s, 33 bytes per nanosecond and multiprocessor (132 of
// them), after about 1,000 ns under load: 33 KB must be under way on each. At one row two blocks of
// 512 threads hold five loads of 16 bytes per thread, each issued anew as soon as it is multiplied:
// 64 to 80 KB. The first loads, and a prefetch of what follows into the L2 cache, are issued before
// the wait for the kernel before, so that memory does not idle while activations are prepared.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/backend/cuda/operands.h"
#include "common/backend/tensor.h"

namespace baton {

inline constexpr int kMaxVectorRows = 15;
inline constexpr int kMaxVectorOutputs = 3;

// All memory is the device's; every matrix begins at a multiple of 16 bytes.
struct VectorInput {
  enum class Kind { kPlain, kNorm, kSwiGlu };
  Kind kind = Kind::kPlain;
  Tensor in;                     // [rows, columns]
  const float* other = nullptr;  // kNorm: the gain [columns]; kSwiGlu: [rows, columns]
  float epsilon = 0;             // kNorm
};

struct VectorOutput {
  CudaMatrix weight;        // [outputs, columns], rows padded with zeros (weight_layout.h)
  Tensor out;               // [rows, outputs]
  bool accumulate = false;  // out += the product, instead of out =
};

// What a launch is fitted to. No bit of a result depends on it.
struct DeviceLimits {
  int multiprocessors = 0;
  size_t shared_bytes = 0;  // that a block may ask for
};

// How many warps sum a row of the weights of one launch. `outputs`: of all its weights of this type
// together.
int VectorTeamWarps(CudaElement element, int64_t outputs, int columns);

// Whether an input of kSwiGlu is better made by LaunchSwiGluRows first, in float32, and multiplied
// as kPlain, which gives the same bits. Every block makes all gates by itself: with about 35
// instructions for each, of which a multiprocessor issues 128 a clock, 16,384 of them on one take
// 2.6 us at 1.7 GHz, in which nothing more of the weights is asked for than fits into the L2 cache;
// another kernel takes about 2.
bool MakeGatesFirst(int rows, int columns);

// One kernel for each element type that the weights have. REQUIRES: 1 to kMaxVectorRows
// rows, 1 to kMaxVectorOutputs outputs, none of which overlaps the input or another.
void LaunchVectorProduct(const VectorInput& input, std::span<const VectorOutput> outputs,
                         const DeviceLimits& limits, cudaStream_t stream);

}  // namespace baton
