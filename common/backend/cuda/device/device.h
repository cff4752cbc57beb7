// Device code that kernels share: reductions, elements and their conversions, accesses of 16 bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "common/backend/cuda/device/operands.h"
#include "common/backend/kv_codes.h"
#include "common/backend/tensor.h"
#include "common/base/check.h"
#include "common/base/kv_int4.h"

namespace baton {

inline constexpr int kWarpLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

// --- Reductions. Every thread gets the same bits; the order is fixed, so that equal inputs give
// --- equal results.

__device__ inline float WarpSum(float value) {
  for (int step = kWarpLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, step);
  }
  return value;
}

__device__ inline float WarpMax(float value) {
  for (int step = kWarpLanes / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  }
  return value;
}

__device__ inline int32_t WarpMax(int32_t value) {
  for (int step = kWarpLanes / 2; step > 0; step /= 2) {
    value = max(value, __shfl_xor_sync(kAllLanes, value, step));
  }
  return value;
}

// The sum over a one-dimensional block of kThreads threads, a multiple of 32. All of them call it.
// `scratch` [kThreads / 32] is shared memory, which may be used again when this returns.
template <int kThreads>
__device__ inline float BlockSum(float value, float* scratch) {
  static_assert(kThreads % kWarpLanes == 0);
  const int thread = static_cast<int>(threadIdx.x);
  value = WarpSum(value);
  if constexpr (kThreads == kWarpLanes) return value;
  if (thread % kWarpLanes == 0) scratch[thread / kWarpLanes] = value;
  __syncthreads();
  float sum = scratch[0];
  for (int warp = 1; warp < kThreads / kWarpLanes; ++warp) sum += scratch[warp];
  // tests/planted_bugs: kernel_block_sum_used_again
  __syncthreads();
  return sum;
}

// --- Elements: float, __half, __nv_bfloat16. Widening is exact, narrowing rounds to nearest even.
// --- The KV cache also has KvInt8 and KvFp8: codes, which are widened without their scale. KvInt4
// --- stands for a byte of a group, two codes.

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(__half value) { return __half2float(value); }
__device__ inline float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline float ToFloat(KvInt8 code) { return code.Value(); }
__device__ inline float ToFloat(KvFp8 code) { return code.Value(); }

template <class Element>
inline constexpr bool kIsKvCode = std::is_same_v<Element, KvInt8> || std::is_same_v<Element, KvFp8>;
template <class Element>
inline constexpr bool kIsKvInt4 = std::is_same_v<Element, KvInt4>;
template <class Element>
inline constexpr bool kIsFloat = !kIsKvCode<Element> && !kIsKvInt4<Element>;

template <class Element>
__device__ inline Element FromFloat(float value);
template <>
__device__ inline float FromFloat<float>(float value) {
  return value;
}
template <>
__device__ inline __half FromFloat<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// For launch functions: calls visit(Element{}), to select a kernel's template argument. REQUIRES:
// `element` is not quantised.
template <class Visit>
void WithElement(CudaElement element, const Visit& visit) {
  switch (element) {
    case CudaElement::kF32:
      return visit(float{});
    case CudaElement::kF16:
      return visit(__half{});
    case CudaElement::kBf16:
      return visit(__nv_bfloat16{});
    default:
      BATON_CHECK(false, "the element must be a float type");
  }
}
template <class Visit>
void WithElement(KvType element, const Visit& visit) {
  switch (element) {
    case KvType::kF32:
      return visit(float{});
    case KvType::kF16:
      return visit(__half{});
    case KvType::kBf16:
      return visit(__nv_bfloat16{});
    case KvType::kInt8:
      return visit(KvInt8{});
    case KvType::kFp8:
      return visit(KvFp8{});
    case KvType::kInt4:
      return visit(KvInt4{});
  }
}

// --- Accesses to elements, of up to 16 bytes at once.

template <int kCount>
struct Floats {
  float values[kCount];
};

// The type that one instruction loads or stores.
template <size_t kBytes>
struct OneAccess;
template <>
struct OneAccess<1> {
  using Type = uint8_t;
};
template <>
struct OneAccess<2> {
  using Type = uint16_t;
};
template <>
struct OneAccess<4> {
  using Type = uint32_t;
};
template <>
struct OneAccess<8> {
  using Type = uint2;
};
template <>
struct OneAccess<16> {
  using Type = uint4;
};

// How many elements one access has when kCount elements are wanted.
template <class Element, int kCount>
inline constexpr int kElementsPerAccess = kCount * sizeof(Element) < 16
                                              ? kCount
                                              : static_cast<int>(16 / sizeof(Element));

// Loads kCount (1, 2, 4, 8 or 16) elements. REQUIRES: the address is a multiple of their bytes,
// or of 16 if they are more than 16 bytes.
template <int kCount, class Element>
__device__ inline Floats<kCount> LoadFloats(const Element* at) {
  constexpr int kEach = kElementsPerAccess<Element, kCount>;
  using Access = typename OneAccess<kEach * sizeof(Element)>::Type;
  Floats<kCount> out;
#pragma unroll
  for (int i = 0; i < kCount; i += kEach) {
    const Access access = *reinterpret_cast<const Access*>(at + i);
    Element elements[kEach];
    memcpy(elements, &access, sizeof(access));
#pragma unroll
    for (int k = 0; k < kEach; ++k) out.values[i + k] = ToFloat(elements[k]);
  }
  return out;
}

// Stores kCount elements, to global memory only. __stwb is named because the compiler splits a
// plain store of 16 bytes if it cannot see the alignment. REQUIRES as LoadFloats.
template <class Element, int kCount>
__device__ inline void StoreFloats(Element* at, const Floats<kCount>& floats) {
  constexpr int kEach = kElementsPerAccess<Element, kCount>;
  using Access = typename OneAccess<kEach * sizeof(Element)>::Type;
#pragma unroll
  for (int i = 0; i < kCount; i += kEach) {
    Element elements[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) elements[k] = FromFloat<Element>(floats.values[i + k]);
    Access access;
    memcpy(&access, elements, sizeof(access));
    __stwb(reinterpret_cast<Access*>(at + i), access);
  }
}

// For launch functions: whether all pointers are multiples of 16.
inline bool MultiplesOf16(std::initializer_list<const void*> pointers) {
  for (const void* const pointer : pointers) {
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) return false;
  }
  return true;
}

}  // namespace baton
