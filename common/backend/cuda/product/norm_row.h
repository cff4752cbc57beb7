// The norm of a row by one thread block, for the kernels that prepare a product's input.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/device/device.h"
#include "ptx.h"

namespace baton {

inline constexpr int kNormThreads = 512;
inline constexpr size_t kNormSharedBytes = kNormThreads / kWarpLanes * sizeof(float);

// Calls store(column, x) with this thread's columns of row / sqrt(mean square + epsilon) * gain,
// kCount at a time; `columns` is a multiple of kCount. All threads of the block call it, before
// they have waited for the previous kernel. `scratch` has kNormSharedBytes. The bits depend on the
// row alone: each thread sums the squares of its columns in ascending order.
//
// A model's row takes a few loads of each thread. They are in flight together, the gain's while the
// previous kernel still runs, and what they bring is kept until the sum is known.
template <int kCount, class Store>
__device__ __forceinline__ void NormaliseRow(const float* row, const float* gain, int columns,
                                             float epsilon, float* scratch, const Store& store) {
  constexpr int kKept = 4;
  constexpr int kStep = kNormThreads * kCount;
  const int first = static_cast<int>(threadIdx.x) * kCount;
  Floats<kCount> x[kKept] = {};
  Floats<kCount> gains[kKept] = {};
  const auto load = [&](const float* from, Floats<kCount>(&to)[kKept]) {
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (first + i * kStep < columns) to[i] = LoadFloats<kCount>(from + first + i * kStep);
    }
  };
  load(gain, gains);
  WaitForPreviousKernel();
  load(row, x);
  float squares = 0;
  const auto add = [&](const Floats<kCount>& some) {
#pragma unroll
    for (const float value : some.values) squares = fmaf(value, value, squares);
  };
#pragma unroll
  for (int i = 0; i < kKept; ++i) add(x[i]);
  for (int column = first + kKept * kStep; column < columns; column += kStep) {
    // tests/planted_bugs: kernel_norm_of_the_row_it_keeps
    add(LoadFloats<kCount>(row + column));
  }
  const float sum = BlockSum<kNormThreads>(squares, scratch);
  const float inverse = 1.0f / sqrtf(sum / static_cast<float>(columns) + epsilon);
  const auto normalise = [&](int column, Floats<kCount> some, const Floats<kCount>& its_gain) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      some.values[i] = some.values[i] * inverse * its_gain.values[i];
    }
    store(column, some);
  };
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    if (first + i * kStep < columns) normalise(first + i * kStep, x[i], gains[i]);
  }
  for (int column = first + kKept * kStep; column < columns; column += kStep) {
    normalise(column, LoadFloats<kCount>(row + column), LoadFloats<kCount>(gain + column));
  }
}

}  // namespace baton
