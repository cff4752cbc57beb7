#include <type_traits>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/product/gate.h"
#include "common/backend/cuda/product/norm_row.h"
#include "common/backend/cuda/product/product_input.h"
#include "ptx.h"

namespace baton {

constexpr int kElementwiseThreads = 256;
constexpr int kVector = 4;  // floats in 16 bytes

constexpr float kLargestF16 = 65504;

// A finite value that an F16 cannot hold becomes its largest: as infinity it would make the whole
// row of the product NaN. What is infinite already stays so.
template <class Element, int kCount>
static __device__ void StoreRounded(Element* to, Floats<kCount> x) {
  if constexpr (std::is_same_v<Element, __half>) {
    for (float& value : x.values) {
      const float size = fabsf(value);
      if (size > kLargestF16 && size < INFINITY) value = copysignf(kLargestF16, value);
    }
  }
  StoreFloats(to, x);
}

// A block has one row.
template <class Element, int kCount>
static __global__ void __launch_bounds__(kNormThreads)
    NormRowsKernel(const float* in, const float* gain, float epsilon, int columns, Element* out) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  const size_t first = size_t{blockIdx.x} * static_cast<size_t>(columns);
  NormaliseRow<kCount>(
      in + first, gain, columns, epsilon, reinterpret_cast<float*>(shared_memory),
      [&](int column, const Floats<kCount>& x) { StoreRounded(out + first + column, x); });
}

// A thread has kCount of the `size` values.
template <class Element, int kCount>
static __global__ void __launch_bounds__(kElementwiseThreads)
    GatedKernel(GateFunction function, const float* gate, const float* up, size_t size,
                Element* out) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const size_t at = (size_t{blockIdx.x} * kElementwiseThreads + threadIdx.x) * kCount;
  if (at >= size) return;
  Floats<kCount> x = LoadFloats<kCount>(gate + at);
  const Floats<kCount> other = LoadFloats<kCount>(up + at);
  for (int i = 0; i < kCount; ++i) x.values[i] = Gated(function, x.values[i], other.values[i]);
  StoreRounded(out + at, x);
}

template <class Element, int kCount>
static __global__ void __launch_bounds__(kElementwiseThreads)
    ConvertKernel(const float* in, size_t size, Element* out) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const size_t at = (size_t{blockIdx.x} * kElementwiseThreads + threadIdx.x) * kCount;
  if (at < size) StoreRounded(out + at, LoadFloats<kCount>(in + at));
}

template <int kCount>
static LaunchOptions ElementwiseOptions(size_t size, cudaStream_t stream) {
  return {.grid = BlocksFor(size, size_t{kElementwiseThreads} * kCount),
          .block = kElementwiseThreads,
          .stream = stream,
          .may_start_early = true};
}

static size_t SizeOf(Tensor tensor) {
  return static_cast<size_t>(tensor.rows) * static_cast<size_t>(tensor.columns);
}

void LaunchNormRows(Tensor in, const float* gain, float epsilon, CudaElement element, void* out,
                    cudaStream_t stream) {
  if (in.rows == 0) return;
  const bool vectors = in.columns % kVector == 0 && MultiplesOf16({in.data, gain, out});
  WithElement(element, [&](auto value) {
    using Element = decltype(value);
    Launch(vectors ? NormRowsKernel<Element, kVector> : NormRowsKernel<Element, 1>,
           {.grid = static_cast<unsigned>(in.rows),
            .block = kNormThreads,
            .shared_bytes = kNormSharedBytes,
            .stream = stream,
            .may_start_early = true},
           in.data, gain, epsilon, in.columns, static_cast<Element*>(out));
  });
}

void LaunchGatedRows(GateFunction function, Tensor gate, Tensor up, CudaElement element, void* out,
                     cudaStream_t stream) {
  const size_t size = SizeOf(gate);
  if (size == 0) return;
  const bool vectors = size % kVector == 0 && MultiplesOf16({gate.data, up.data, out});
  WithElement(element, [&](auto value) {
    using Element = decltype(value);
    Launch(
        vectors ? GatedKernel<Element, kVector> : GatedKernel<Element, 1>,
        vectors ? ElementwiseOptions<kVector>(size, stream) : ElementwiseOptions<1>(size, stream),
        function, gate.data, up.data, size, static_cast<Element*>(out));
  });
}

void LaunchConvertRows(Tensor in, CudaElement element, void* out, cudaStream_t stream) {
  const size_t size = SizeOf(in);
  if (size == 0) return;
  const bool vectors = size % kVector == 0 && MultiplesOf16({in.data, out});
  WithElement(element, [&](auto value) {
    using Element = decltype(value);
    Launch(
        vectors ? ConvertKernel<Element, kVector> : ConvertKernel<Element, 1>,
        vectors ? ElementwiseOptions<kVector>(size, stream) : ElementwiseOptions<1>(size, stream),
        in.data, size, static_cast<Element*>(out));
  });
}

}  // namespace baton
