// In place of the toolkit's header of this name: binary16 as a storage type.
#pragma once

#include <cmath>

#include "common/base/float_types.h"
#include "tests/support/cuda_shim/vector_types.h"

struct __half {
  uint16_t bits;
};
struct alignas(4) __half2 {
  __half x, y;
};
using half = __half;
using half2 = __half2;

inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline float __half2float(__half value) { return baton::F16ToF32(value.bits); }
inline __half __float2half_rn(float value) { return {baton::F32ToF16(value)}; }
inline __half __float2half(float value) { return __float2half_rn(value); }

inline __half2 __halves2half2(__half low, __half high) { return {low, high}; }
inline __half __low2half(__half2 pair) { return pair.x; }
inline __half __high2half(__half2 pair) { return pair.y; }
inline float __low2float(__half2 pair) { return __half2float(pair.x); }
inline float __high2float(__half2 pair) { return __half2float(pair.y); }
inline __half2 __floats2half2_rn(float low, float high) {
  return {__float2half_rn(low), __float2half_rn(high)};
}
inline __half2 __float22half2_rn(float2 pair) { return __floats2half2_rn(pair.x, pair.y); }
inline float2 __half22float2(__half2 pair) { return {__low2float(pair), __high2float(pair)}; }

inline __half2 __half2half2(__half value) { return {value, value}; }
inline __half2 __hsub2(__half2 a, __half2 b) {
  return __floats2half2_rn(__low2float(a) - __low2float(b), __high2float(a) - __high2float(b));
}
inline __half2 __hmul2(__half2 a, __half2 b) {
  return __floats2half2_rn(__low2float(a) * __low2float(b), __high2float(a) * __high2float(b));
}
// Rounds to float32 before it rounds to binary16: the right bits if the result is exact.
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __floats2half2_rn(std::fma(__low2float(a), __low2float(b), __low2float(c)),
                           std::fma(__high2float(a), __high2float(b), __high2float(c)));
}
