// KV at four bits: rotated heads, in groups of kKvGroup (32) elements with one float16 scale. For
// host and device.
//
// The rotation spreads what stands out in a head, so that no element makes its group's scale large
// for the others. It is a Hadamard transform of each block of RotationBlock(head_dim) elements:
// every element is first multiplied with RotationFactor(block), then come the stages of distance 1,
// 2, 4, up to half a block, in which elements i and i + distance become their sum and their
// difference. It is its own inverse but for rounding. K (after RoPE) and V are rotated before they
// are stored, Q like K, which leaves their products what they were; the output of attention is
// rotated back.
//
// An element is code * scale, which a float32 holds exactly; codes are integers from -8 to 7. A
// group has 16 bytes: byte i has the code of element i in its lower half and that of element i + 16
// in its upper half, in two's complement.
//
// scale = the least bad Int4Candidate times the extreme (the element with the largest magnitude,
// the negative one of two), each rounded to float16. code = x * (1 / scale), rounded to the nearest
// integer, ties to even, and cut off at -8 and 7. A candidate is as bad as the sum of (x - code *
// scale)^2, in float32; the squares are summed by the tree +16, +8, +4, +2, +1. The first of equals
// is taken. Finite inputs stay finite:
// - Before the rotation magnitudes above 2^100 count as 2^100.
// - A scale is at most the largest float16, and elements beyond its codes are cut off.
// - A scale that is zero as a float16 makes its group zero.
// - A head with an infinity or a NaN has NaN as all its scales, and codes of zero.
#pragma once

#include <bit>
#include <cstdint>

#include "common/base/float_types.h"
#include "common/base/kv_type.h"

namespace baton {

// Candidate `i` for the scale of a group whose extreme is 1.
inline constexpr int kInt4Candidates = 4;
[[gnu::always_inline]] constexpr float Int4Candidate(int i) {
  return i == 0 ? -1.0f / 8 : i == 1 ? -1.0f / 7.5f : i == 2 ? -1.0f / 8.5f : -1.0f / 9;
}

inline constexpr int kMostInt4HeadDim = 512;
inline constexpr float kLeastInt4 = -8;
inline constexpr float kLargestInt4 = 7;
inline constexpr float kRotationLimit = 0x1p100f;
inline constexpr uint16_t kNanInt4Scale = 0x7e00;
inline constexpr float kLargestInt4Extreme = 8 * 65504.0f;  // beyond, elements are cut off

// Elements that are rotated together: the largest power of two that divides the head dimension.
[[gnu::always_inline]] constexpr int RotationBlock(int head_dim) { return head_dim & -head_dim; }

// 1 / sqrt(block). REQUIRES: a power of two.
[[gnu::always_inline]] constexpr float RotationFactor(int block) {
  float factor = 1;
  for (; block >= 4; block /= 4) factor /= 2;
  return block == 2 ? factor * 0x1.6a09e6p-1f : factor;
}

// Candidate `i` for the scale of a group with this extreme, as a float16.
[[gnu::always_inline]] constexpr uint16_t Int4Scale(float extreme, int i) {
  constexpr float kLargest = 65504;
  float scale = extreme * Int4Candidate(i) + 0.0f;  // the sum is never -0
  scale = scale < kLargest ? scale : kLargest;
  scale = scale > -kLargest ? scale : -kLargest;
  return F32ToF16(scale);
}

// What elements are multiplied with to get their codes.
[[gnu::always_inline]] constexpr float Int4Inverse(float scale) {
  return scale == 0 ? 0.0f : 1.0f / scale;
}

// The code of a finite element.
[[gnu::always_inline]] constexpr int Int4Code(float x, float inverse) {
  constexpr float kRound = 0x1.8p23f;  // adding it to a number below 2^22 rounds to an integer
  float quotient = x * inverse;
  quotient = quotient > kLeastInt4 ? quotient : kLeastInt4;
  quotient = quotient < kLargestInt4 ? quotient : kLargestInt4;
  return std::bit_cast<int32_t>(quotient + kRound) - std::bit_cast<int32_t>(kRound);
}

// A byte of a group: the codes of elements i and i + 16.
struct KvInt4 {
  uint8_t bits;

  [[gnu::always_inline]] static constexpr KvInt4 Of(int low, int high) {
    return {static_cast<uint8_t>((low & 15) | (high & 15) << 4)};
  }
  [[gnu::always_inline]] constexpr float Low() const {
    return static_cast<float>(static_cast<int8_t>(bits << 4) >> 4);
  }
  [[gnu::always_inline]] constexpr float High() const {
    return static_cast<float>(static_cast<int8_t>(bits) >> 4);
  }
};

}  // namespace baton
