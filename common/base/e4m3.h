// Conversions of E4M3, an 8-bit floating-point format: a sign bit, 4 bits of exponent, 3 bits of
// mantissa.
//
// Magnitudes go from 2^-9 (subnormal below 2^-6) to 448. There is no infinity. The format defines
// the code 0x7f as a NaN; it is never made here, and reads as 480, so that no code is an exception
// (a GPU's own instruction reads a NaN).
// REQUIRES: the default rounding mode, no FTZ/DAZ. The functions are free of branches, and work on
// host and device.
#pragma once

#include <bit>
#include <cstdint>

#include "common/base/float_types.h"

namespace baton {

inline constexpr float kLargestE4m3 = 448;

// The conversion is exact.
[[gnu::always_inline]] constexpr float E4m3ToF32(uint8_t code) {
  // At F32's bit positions the exponent lacks the difference of the biases, 127 - 7.
  const uint32_t bits = (code & 0x80u) << 24 | (code & 0x7fu) << 20;
  return std::bit_cast<float>(bits) * 0x1p120f;
}

// Rounds to nearest even. A magnitude above 448, and a NaN, becomes 448 with the value's sign.
[[gnu::always_inline]] constexpr uint8_t F32ToE4m3(float value) {
  constexpr uint32_t kLeastNormal = (127u - 6u) << 23;  // 2^-6
  constexpr uint32_t kRebias = (127u - 7u) << 23;
  constexpr uint32_t kLargest = 0x7e;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t odd = (magnitude >> 20) & 1u;
  const uint32_t normal = (magnitude - kRebias + 0x7ffffu + odd) >> 20;
  // Near 2^14 a float's last place is worth 2^-9, as it is in E4M3's subnormals, so the sum rounds
  // to one of them.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - ((127u + 14u) << 23);
  const uint32_t code = SelectBits(magnitude < kLeastNormal, subnormal, normal);
  return static_cast<uint8_t>((bits >> 24 & 0x80u) | SelectBits(code > kLargest, kLargest, code));
}

}  // namespace baton
