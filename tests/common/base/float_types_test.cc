#include "common/base/float_types.h"

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr uint32_t kHalves = 65536;

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }
bool IsF16Nan(uint32_t half) { return (half & 0x7fffu) > 0x7c00u; }
bool IsBf16Nan(uint32_t bits) { return (bits & 0x7fffu) > 0x7f80u; }

// The value of a half by the format's definition, in double, which represents every half exactly.
double ValueOfF16(uint32_t half) {
  const int exponent = static_cast<int>((half >> 10) & 31u);
  const int mantissa = static_cast<int>(half & 1023u);
  const double sign = (half & 0x8000u) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, EveryHalfWidensToItsValue) {
  for (uint32_t half = 0; half < kHalves; ++half) {
    const float wide = F16ToF32(static_cast<uint16_t>(half));
    if (IsF16Nan(half)) {
      EXPECT_TRUE(std::isnan(wide)) << half;
      EXPECT_NE(Bits(wide) & 0x400000u, 0u) << half << " is a signalling NaN";
    } else {
      ASSERT_EQ(static_cast<double>(wide), ValueOfF16(half)) << half;
      ASSERT_EQ(std::signbit(wide), half >= 0x8000u) << half;
    }
  }
}

TEST(F16, EveryHalfComesBackFromF32) {
  for (uint32_t half = 0; half < kHalves; ++half) {
    const uint16_t back = F32ToF16(F16ToF32(static_cast<uint16_t>(half)));
    ASSERT_EQ(back, IsF16Nan(half) ? half | 0x200u : half);
  }
}

TEST(F16, NarrowingRoundsToNearestAndTiesToEven) {
  // Between two neighbouring halves the rounding changes only at their middle, so testing the
  // middle and the floats beside it suffices.
  for (uint32_t low = 0; low < 0x7c00u; ++low) {
    const double next = low + 1 == 0x7c00u ? 65536.0 : ValueOfF16(low + 1);
    const auto middle = static_cast<float>((ValueOfF16(low) + next) / 2);
    const uint32_t even = low % 2 == 0 ? low : low + 1;
    for (const uint32_t sign : {0u, 0x8000u}) {
      const auto narrow = [&](float value) { return F32ToF16(sign != 0 ? -value : value) ^ sign; };
      ASSERT_EQ(narrow(middle), even) << low;
      ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)), low) << low;
      ASSERT_EQ(narrow(std::nextafter(middle, 1e30f)), low + 1) << low;
    }
  }
}

TEST(F16, NarrowingKeepsInfinityAndNanAndFlushesOnlyWhatIsTooSmall) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(F32ToF16(infinity), 0x7c00);
  EXPECT_EQ(F32ToF16(-infinity), 0xfc00);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(F32ToF16(65519.0f), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16(-0.0f), 0x8000);
  EXPECT_EQ(F32ToF16(0x1p-25f), 0x0000);
  EXPECT_EQ(F32ToF16(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(F32ToF16(std::bit_cast<float>(0x7f800001u)), 0x7e00);
  EXPECT_EQ(F32ToF16(std::bit_cast<float>(0xffffffffu)), 0xffff);
}

__attribute__((target("f16c"))) float HardwareF16ToF32(uint16_t half) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}
__attribute__((target("f16c"))) uint16_t HardwareF32ToF16(uint32_t bits) {
  const __m128i narrow = _mm_cvtps_ph(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits))),
                                      _MM_FROUND_TO_NEAREST_INT);
  return static_cast<uint16_t>(_mm_cvtsi128_si32(narrow));
}

TEST(F16, EqualsTheHardware) {
  // Whatever has AVX2 has F16C, whose name clang 16 does not know.
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this CPU may have no F16C";
  for (uint32_t half = 0; half < kHalves; ++half) {
    ASSERT_EQ(Bits(F16ToF32(static_cast<uint16_t>(half))),
              Bits(HardwareF16ToF32(static_cast<uint16_t>(half))))
        << half;
  }
  // The step is odd, so that low bits vary too.
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 127) {
    const auto pattern = static_cast<uint32_t>(bits);
    ASSERT_EQ(F32ToF16(std::bit_cast<float>(pattern)), HardwareF32ToF16(pattern)) << pattern;
  }
}

TEST(Bf16, EveryValueWidensToItsUpperHalfAndComesBack) {
  for (uint32_t bits = 0; bits < kHalves; ++bits) {
    const float wide = Bf16ToF32(static_cast<uint16_t>(bits));
    ASSERT_EQ(Bits(wide), bits << 16);
    ASSERT_EQ(F32ToBf16(wide), IsBf16Nan(bits) ? bits | 0x40u : bits);
  }
}

TEST(Bf16, NarrowingRoundsToNearestAndTiesToEven) {
  for (uint32_t low = 0; low < kHalves; ++low) {
    if ((low & 0x7fffu) >= 0x7f80u) continue;  // infinities and NaNs have no next value
    const auto narrow = [&](uint32_t below) {
      return F32ToBf16(std::bit_cast<float>((low << 16) | below));
    };
    ASSERT_EQ(narrow(0x8000u), low % 2 == 0 ? low : low + 1);
    ASSERT_EQ(narrow(0x7fffu), low);
    ASSERT_EQ(narrow(0x8001u), low + 1);
  }
}

TEST(Bf16, NarrowingKeepsANanWhosePayloadIsInTheLowHalf) {
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0xffffffffu)), 0xffff);
}

}  // namespace
}  // namespace baton
