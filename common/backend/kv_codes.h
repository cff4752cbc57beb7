// The quantised elements of the KV cache: codes of one byte, and one float32 scale for each token,
// KV head and side (K or V). An element is code * scale, in float32.
//
// scale = the largest magnitude in the head / the largest value of a code. code = the code nearest
// to x / scale, ties to even. Finite inputs stay finite:
// - A head whose largest magnitude is below kLargest times the least normal float has the scale 0:
//   its elements are zero.
// - Magnitudes above 2^127 count as 2^127, so that code * scale does not overflow.
// - A head with an infinity or a NaN has a NaN as its scale.
//
// The scale is a float32 because the range of a float16 would cut both ends off, and because the
// wire carries it as a float32 (common/handoff/kv_wire_type.h). For host and device.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "common/base/e4m3.h"
#include "common/base/float_types.h"

namespace baton {

inline constexpr int32_t kKvSaturation = 0x7f000000;  // MagnitudeBits(2^127)

struct KvInt8 {
  uint8_t bits;  // two's complement

  static constexpr float kLargest = 127;
  [[gnu::always_inline]] constexpr float Value() const {
    // Between 2^23 and 2^24 the lowest bits of a float count ones.
    return std::bit_cast<float>(0x4b000000u | (bits ^ 0x80u)) - (0x1p23f + 128);
  }
  // REQUIRES: |x| <= kLargest.
  [[gnu::always_inline]] static constexpr KvInt8 Nearest(float x) {
    constexpr float kRound = 0x1.8p23f;  // adding it to a number below 2^22 rounds to an integer
    return {
        static_cast<uint8_t>(std::bit_cast<int32_t>(x + kRound) - std::bit_cast<int32_t>(kRound))};
  }
};

struct KvFp8 {
  uint8_t bits;  // E4M3

  static constexpr float kLargest = kLargestE4m3;
  [[gnu::always_inline]] constexpr float Value() const { return E4m3ToF32(bits); }
  [[gnu::always_inline]] static constexpr KvFp8 Nearest(float x) { return {F32ToE4m3(x)}; }
};

// The scale of a head; `most` is the largest MagnitudeBits of its elements.
template <class Code>
[[gnu::always_inline]] constexpr float KvScale(int32_t most) {
  constexpr int32_t kInfinity = 0x7f800000;
  if (most >= kInfinity) return std::numeric_limits<float>::quiet_NaN();
  const float largest = std::bit_cast<float>(most < kKvSaturation ? most : kKvSaturation);
  const bool zero = largest < Code::kLargest * std::numeric_limits<float>::min();
  return zero ? 0.0f : largest / Code::kLargest;
}

// The divisor for KvCode of the elements of a head with this scale.
[[gnu::always_inline]] constexpr float KvDivisor(float scale) {
  return scale == 0 ? std::numeric_limits<float>::max() : scale;
}

// The code of one element; some constant if the scale is a NaN.
template <class Code>
[[gnu::always_inline]] constexpr Code KvCode(float x, float divisor) {
  float quotient = x / divisor;
  quotient = quotient < Code::kLargest ? quotient : Code::kLargest;
  quotient = quotient > -Code::kLargest ? quotient : -Code::kLargest;
  return Code::Nearest(quotient);
}

}  // namespace baton
