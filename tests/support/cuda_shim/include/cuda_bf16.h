// In place of the toolkit's header of this name: bfloat16 as a storage type.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/base/float_types.h"
#include "tests/support/cuda_shim/vector_types.h"

struct __nv_bfloat16 {
  uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline float __bfloat162float(__nv_bfloat16 value) { return baton::Bf16ToF32(value.bits); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {baton::F32ToBf16(value)}; }
inline __nv_bfloat16 __float2bfloat16(float value) { return __float2bfloat16_rn(value); }

inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) {
  return {low, high};
}
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 pair) { return pair.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 pair) { return pair.y; }
inline float __low2float(__nv_bfloat162 pair) { return __bfloat162float(pair.x); }
inline float __high2float(__nv_bfloat162 pair) { return __bfloat162float(pair.y); }
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 pair) {
  return __floats2bfloat162_rn(pair.x, pair.y);
}
inline float2 __bfloat1622float2(__nv_bfloat162 pair) {
  return {__low2float(pair), __high2float(pair)};
}
inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 pair) { return {pair.x, pair.x}; }
inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 pair) { return {pair.y, pair.y}; }
inline __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __floats2bfloat162_rn(__low2float(a) * __low2float(b), __high2float(a) * __high2float(b));
}
namespace baton::cuda_shim {

// a * b + c in one rounding: a float32 that is rounded to odd is rounded to BF16 as the exact value would be.
inline __nv_bfloat16 FmaInBf16(float a, float b, float c) {
  const double exact = double{a} * double{b} + double{c};
  float rounded = static_cast<float>(exact);
  if (std::isfinite(rounded) && double{rounded} != exact) {
    if (std::fabs(double{rounded}) > std::fabs(exact)) rounded = std::nextafter(rounded, 0.0f);
    rounded = std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) | 1u);
  }
  return __float2bfloat16_rn(rounded);
}

}  // namespace baton::cuda_shim

inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return {baton::cuda_shim::FmaInBf16(__low2float(a), __low2float(b), __low2float(c)),
          baton::cuda_shim::FmaInBf16(__high2float(a), __high2float(b), __high2float(c))};
}
inline __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __floats2bfloat162_rn(__low2float(a) - __low2float(b), __high2float(a) - __high2float(b));
}
