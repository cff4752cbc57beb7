#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/experts/expert_sum.h"
#include "ptx.h"

namespace baton {

constexpr int kSumThreads = 128;
constexpr int kSumVector = 4;  // floats in 16 bytes

// The grid is [rows, blocks of columns].
template <int kCount>
static __global__ void __launch_bounds__(kSumThreads)
    AddExpertSumsKernel(const float* results, const float* shares, int used, float scale,
                        int columns, float* out) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const size_t column = (size_t{blockIdx.y} * kSumThreads + threadIdx.x) * kCount;
  if (column >= static_cast<size_t>(columns)) return;
  const size_t row = blockIdx.x;
  Floats<kCount> sums = {};
  for (int i = 0; i < used; ++i) {
    const size_t pair = row * static_cast<size_t>(used) + static_cast<size_t>(i);
    const float share = shares[pair];
    const Floats<kCount> x =
        LoadFloats<kCount>(results + pair * static_cast<size_t>(columns) + column);
    for (int k = 0; k < kCount; ++k) sums.values[k] = fmaf(share, x.values[k], sums.values[k]);
  }
  float* const at = out + row * static_cast<size_t>(columns) + column;
  Floats<kCount> values = LoadFloats<kCount>(at);
  for (int k = 0; k < kCount; ++k) {
    values.values[k] = fmaf(scale, sums.values[k], values.values[k]);
  }
  StoreFloats(at, values);
}

void LaunchAddExpertSums(const float* results, const float* shares, int used, float scale,
                         Tensor out, cudaStream_t stream) {
  if (out.rows == 0) return;
  const bool vectors = out.columns % kSumVector == 0 && MultiplesOf16({results, out.data});
  const int count = vectors ? kSumVector : 1;
  Launch(vectors ? AddExpertSumsKernel<kSumVector> : AddExpertSumsKernel<1>,
         {.grid = {static_cast<unsigned>(out.rows), BlocksFor(out.columns, kSumThreads * count)},
          .block = kSumThreads,
          .stream = stream,
          .may_start_early = true},
         results, shares, used, scale, out.columns, out.data);
}

}  // namespace baton
