#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/pass/row_operations.h"
#include "common/backend/exact_math.h"
#include "ptx.h"

namespace baton {

constexpr int kRowThreads = 128;
constexpr int kCopyThreads = 32;  // few, so that the columns of a small copy still fill many blocks
constexpr int kRowsTogether = 8;
constexpr int kRowVector = 4;  // floats in 16 bytes

// The grid is [rows, blocks of columns].
template <int kCount>
static __global__ void __launch_bounds__(kRowThreads)
    AddBiasKernel(const float* bias, int columns, float* out) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const size_t column = (size_t{blockIdx.y} * kRowThreads + threadIdx.x) * kCount;
  if (column >= static_cast<size_t>(columns)) return;
  float* const at = out + size_t{blockIdx.x} * static_cast<size_t>(columns) + column;
  Floats<kCount> values = LoadFloats<kCount>(at);
  const Floats<kCount> biases = LoadFloats<kCount>(bias + column);
  for (int i = 0; i < kCount; ++i) values.values[i] += biases.values[i];
  StoreFloats(at, values);
}

struct ScaleBy {
  float factor;
  __device__ float operator()(float x) const { return factor * x; }
};

struct SoftCapAt {
  float cap;
  __device__ float operator()(float x) const {
    return cap * (1.0f - 2.0f / (1.0f + ExpF(2.0f * (x / cap))));
  }
};

// A thread has kCount of the `size` values.
template <class Function, int kCount>
static __global__ void __launch_bounds__(kRowThreads)
    ChangeKernel(Function function, float* values, size_t size) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const size_t at = (size_t{blockIdx.x} * kRowThreads + threadIdx.x) * kCount;
  if (at >= size) return;
  Floats<kCount> x = LoadFloats<kCount>(values + at);
  for (int i = 0; i < kCount; ++i) x.values[i] = function(x.values[i]);
  StoreFloats(values + at, x);
}

// A thread has some columns of all rows. So where the output lies over the input, no other thread
// reads what this one writes. It may write rows that it has read: rows[i] >= i, and they ascend.
template <int kCount>
static __global__ void __launch_bounds__(kCopyThreads)
    CopyRowsKernel(const float* in, const int32_t* rows, int row_count, int columns, float* out) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const size_t column = (size_t{blockIdx.x} * kCopyThreads + threadIdx.x) * kCount;
  if (column >= static_cast<size_t>(columns)) return;
  for (int first = 0; first < row_count; first += kRowsTogether) {
    const int count = min(kRowsTogether, row_count - first);
    Floats<kCount> values[kRowsTogether];
#pragma unroll
    for (int i = 0; i < kRowsTogether; ++i) {
      if (i >= count) break;
      const size_t row = static_cast<size_t>(rows[first + i]);
      values[i] = LoadFloats<kCount>(in + row * static_cast<size_t>(columns) + column);
    }
#pragma unroll
    for (int i = 0; i < kRowsTogether; ++i) {
      if (i >= count) break;
      const size_t row = static_cast<size_t>(first + i);
      StoreFloats(out + row * static_cast<size_t>(columns) + column, values[i]);
    }
  }
}

void LaunchAddBias(const float* bias, Tensor out, cudaStream_t stream) {
  if (out.rows == 0) return;
  const bool vectors = out.columns % kRowVector == 0 && MultiplesOf16({bias, out.data});
  const int count = vectors ? kRowVector : 1;
  Launch(vectors ? AddBiasKernel<kRowVector> : AddBiasKernel<1>,
         {.grid = {static_cast<unsigned>(out.rows), BlocksFor(out.columns, kRowThreads * count)},
          .block = kRowThreads,
          .stream = stream,
          .may_start_early = true},
         bias, out.columns, out.data);
}

template <class Function>
static void ChangeValues(const Function& function, Tensor values, cudaStream_t stream) {
  const size_t size = static_cast<size_t>(values.rows) * static_cast<size_t>(values.columns);
  if (size == 0) return;
  const bool vectors = size % kRowVector == 0 && MultiplesOf16({values.data});
  const int count = vectors ? kRowVector : 1;
  Launch(vectors ? ChangeKernel<Function, kRowVector> : ChangeKernel<Function, 1>,
         {.grid = BlocksFor(size, kRowThreads * count),
          .block = kRowThreads,
          .stream = stream,
          .may_start_early = true},
         function, values.data, size);
}

void LaunchScale(float factor, Tensor values, cudaStream_t stream) {
  ChangeValues(ScaleBy{factor}, values, stream);
}

void LaunchSoftCap(float cap, Tensor values, cudaStream_t stream) {
  ChangeValues(SoftCapAt{cap}, values, stream);
}

void LaunchCopyRows(Tensor in, const int32_t* rows, Tensor out, cudaStream_t stream) {
  if (out.rows == 0) return;
  const bool vectors = in.columns % kRowVector == 0 && MultiplesOf16({in.data, out.data});
  const int count = vectors ? kRowVector : 1;
  Launch(vectors ? CopyRowsKernel<kRowVector> : CopyRowsKernel<1>,
         {.grid = BlocksFor(in.columns, kCopyThreads * count),
          .block = kCopyThreads,
          .stream = stream,
          .may_start_early = true},
         in.data, rows, out.rows, in.columns, out.data);
}

}  // namespace baton
