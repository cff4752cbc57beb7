#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/pass/row_norms.h"
#include "common/base/check.h"
#include "ptx.h"

namespace baton {

constexpr int kAddNormThreads = 256;
constexpr int kGroupThreads = 128;
constexpr int kWarpGroup = 512;    // columns up to which a group is the work of one warp
constexpr int kRowNormVector = 4;  // floats in 16 bytes

// The factor of `size` values before the gain, for kThreads threads that call it together.
template <int kThreads, int kCount>
static __device__ float InverseNorm(const float* values, int size, int thread, float epsilon,
                                    float* scratch) {
  float squares = 0;
  for (int column = thread * kCount; column < size; column += kThreads * kCount) {
    const Floats<kCount> x = LoadFloats<kCount>(values + column);
    for (const float value : x.values) squares = fmaf(value, value, squares);
  }
  float sum;
  if constexpr (kThreads == kWarpLanes) {
    sum = WarpSum(squares);
  } else {
    sum = BlockSum<kThreads>(squares, scratch);
  }
  return 1.0f / sqrtf(sum / static_cast<float>(size) + epsilon);
}

// kThreads threads have one group: a warp or the whole block.
template <int kThreads, int kCount>
static __global__ void __launch_bounds__(kGroupThreads)
    NormGroupsKernel(const float* gain, int size, float epsilon, size_t groups, float* values) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  const size_t group =
      size_t{blockIdx.x} * (kGroupThreads / kThreads) + threadIdx.x / unsigned{kThreads};
  if (group >= groups) return;
  const int thread = static_cast<int>(threadIdx.x % unsigned{kThreads});
  float* const at = values + group * static_cast<size_t>(size);
  const float inverse = InverseNorm<kThreads, kCount>(at, size, thread, epsilon,
                                                      reinterpret_cast<float*>(shared_memory));
  for (int column = thread * kCount; column < size; column += kThreads * kCount) {
    Floats<kCount> x = LoadFloats<kCount>(at + column);
    const Floats<kCount> gains = LoadFloats<kCount>(gain + column);
    for (int i = 0; i < kCount; ++i) x.values[i] = x.values[i] * inverse * gains.values[i];
    StoreFloats(at + column, x);
  }
}

// A block has one row.
template <int kCount>
static __global__ void __launch_bounds__(kAddNormThreads)
    AddNormKernel(const float* in, const float* gain, float epsilon, float scale, int columns,
                  float* out) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  const size_t first = size_t{blockIdx.x} * static_cast<size_t>(columns);
  const int thread = static_cast<int>(threadIdx.x);
  const float inverse = InverseNorm<kAddNormThreads, kCount>(
      in + first, columns, thread, epsilon, reinterpret_cast<float*>(shared_memory));
  for (int column = thread * kCount; column < columns; column += kAddNormThreads * kCount) {
    const Floats<kCount> x = LoadFloats<kCount>(in + first + column);
    const Floats<kCount> gains = LoadFloats<kCount>(gain + column);
    Floats<kCount> sums = LoadFloats<kCount>(out + first + column);
    for (int i = 0; i < kCount; ++i) {
      sums.values[i] = fmaf(scale, x.values[i] * inverse * gains.values[i], sums.values[i]);
    }
    StoreFloats(out + first + column, sums);
  }
}

template <int kThreads>
static void NormGroupsBy(const float* gain, int size, float epsilon, Tensor values,
                         cudaStream_t stream) {
  const size_t groups =
      static_cast<size_t>(values.rows) * static_cast<size_t>(values.columns / size);
  const bool vectors = size % kRowNormVector == 0 && MultiplesOf16({gain, values.data});
  Launch(vectors ? NormGroupsKernel<kThreads, kRowNormVector> : NormGroupsKernel<kThreads, 1>,
         {.grid = BlocksFor(groups, kGroupThreads / kThreads),
          .block = kGroupThreads,
          .shared_bytes = kGroupThreads / kWarpLanes * sizeof(float),
          .stream = stream,
          .may_start_early = true},
         gain, size, epsilon, groups, values.data);
}

void LaunchNormGroups(const float* gain, int size, float epsilon, Tensor values,
                      cudaStream_t stream) {
  BATON_CHECK(size > 0 && values.columns % size == 0, "the columns must be whole groups",
              values.columns);
  if (values.rows == 0) return;
  if (size <= kWarpGroup) {
    NormGroupsBy<kWarpLanes>(gain, size, epsilon, values, stream);
  } else {
    NormGroupsBy<kGroupThreads>(gain, size, epsilon, values, stream);
  }
}

void LaunchAddNorm(Tensor in, const float* gain, float epsilon, float scale, Tensor out,
                   cudaStream_t stream) {
  if (in.rows == 0) return;
  const bool vectors = in.columns % kRowNormVector == 0 && MultiplesOf16({in.data, gain, out.data});
  Launch(vectors ? AddNormKernel<kRowNormVector> : AddNormKernel<1>,
         {.grid = static_cast<unsigned>(in.rows),
          .block = kAddNormThreads,
          .shared_bytes = kAddNormThreads / kWarpLanes * sizeof(float),
          .stream = stream,
          .may_start_early = true},
         in.data, gain, epsilon, scale, in.columns, out.data);
}

}  // namespace baton
