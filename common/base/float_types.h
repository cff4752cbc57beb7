// Conversions of the 16-bit floating-point formats, and the bits of magnitudes: F16 (IEEE binary16)
// and BF16 (the upper half of a float32).
//
// Widening is exact. Narrowing rounds to nearest even; values that are too large become infinity,
// and subnormals are kept. A NaN stays a NaN with the upper bits of its payload. It becomes quiet,
// except in Bf16ToF32, which only shifts. The F16 functions give the bits of the F16C instructions,
// so a code path may use either. REQUIRES: the default rounding mode, no FTZ/DAZ. The functions are
// free of branches, so that loops over them vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace baton {

// Selects `yes` or `no` by masks. A conditional expression around a float operation would stay a
// branch, because the operation could trap, and the compiler would not vectorise the loop.
constexpr uint32_t SelectBits(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

// The bits of a float's magnitude. They compare as magnitudes do, and a NaN is above all of them.
[[gnu::always_inline]] constexpr int32_t MagnitudeBits(float x) {
  return std::bit_cast<int32_t>(x) & 0x7fffffff;
}

constexpr float F16ToF32(uint16_t half) {
  constexpr uint32_t kInfinity = 0x7c00u << 13;  // F16's infinity at F32's bit positions
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = (half & 0x7fffu) << 13;
  const uint32_t normal = magnitude + kRebias;
  const uint32_t special = (normal + kRebias) | SelectBits(magnitude > kInfinity, 0x400000u, 0u);
  // A subnormal m * 2^-24 is (1 + m * 2^-10) * 2^-14, less 2^-14.
  const float subnormal = std::bit_cast<float>(normal + (1u << 23)) - 0x1p-14f;
  const uint32_t finite =
      SelectBits(magnitude < (0x0400u << 13), std::bit_cast<uint32_t>(subnormal), normal);
  return std::bit_cast<float>(sign | SelectBits(magnitude >= kInfinity, special, finite));
}

constexpr uint16_t F32ToF16(float value) {
  constexpr uint32_t kInfinity = 0xffu << 23;
  // 2^16. Below it, rounding carries values from 65520 on into infinity.
  constexpr uint32_t kTooLarge = (127u + 16u) << 23;
  constexpr uint32_t kLeastNormal = (127u - 14u) << 23;  // 2^-14
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t odd = (magnitude >> 13) & 1u;
  const uint32_t normal = (magnitude - kRebias + 0xfffu + odd) >> 13;
  // Near 0.5 a float's last place is worth 2^-24, as it is in F16's subnormals, so the sum rounds
  // to one of them.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - (126u << 23);
  const uint32_t special =
      SelectBits(magnitude > kInfinity, 0x7e00u | ((magnitude >> 13) & 0x3ffu), 0x7c00u);
  const uint32_t finite = SelectBits(magnitude < kLeastNormal, subnormal, normal);
  return static_cast<uint16_t>(((bits >> 16) & 0x8000u) |
                               SelectBits(magnitude >= kTooLarge, special, finite));
}

constexpr float Bf16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

constexpr uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>(SelectBits((bits & 0x7fffffffu) > 0x7f800000u, quiet, rounded));
}

}  // namespace baton
