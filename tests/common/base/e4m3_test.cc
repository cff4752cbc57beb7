#include "common/base/e4m3.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

#include "tests/support/stored_head.h"

namespace baton {
namespace {

// The nearest code, found by comparison with all codes; the even one of two.
uint8_t NearestByAll(double x) {
  int best = 0;
  for (int code = 0; code <= 0x7e; ++code) {
    const double distance = std::abs(std::abs(x) - ValueOfE4m3(code));
    const double least = std::abs(std::abs(x) - ValueOfE4m3(best));
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return static_cast<uint8_t>(std::signbit(x) ? best | 0x80 : best);
}

TEST(E4m3, EveryCodeWidensToItsValueAndBack) {
  for (int code = 0; code < 256; ++code) {
    const float wide = E4m3ToF32(static_cast<uint8_t>(code));
    if ((code & 0x7f) == 0x7f) {
      EXPECT_EQ(wide, code == 0x7f ? 480.0f : -480.0f);
      continue;
    }
    EXPECT_EQ(double{wide}, ValueOfE4m3(code)) << code;
    EXPECT_EQ(std::signbit(wide), code >= 0x80) << code;
    EXPECT_EQ(F32ToE4m3(wide), code);
  }
  EXPECT_EQ(ValueOfE4m3(0x7e), double{kLargestE4m3});
}

TEST(E4m3, EveryHalfNarrowsToTheNearestCode) {
  for (uint32_t half = 0; half < 65536; ++half) {
    const float value = F16ToF32(static_cast<uint16_t>(half));
    const int sign = half >= 0x8000 ? 0x80 : 0;
    if (!std::isfinite(value)) {
      ASSERT_EQ(F32ToE4m3(value), sign | 0x7e) << half;
      continue;
    }
    ASSERT_EQ(F32ToE4m3(value), NearestByAll(value)) << value;
    ASSERT_EQ(NearestE4m3(value), NearestByAll(value)) << value;
  }
}

TEST(E4m3, TheMiddleOfTwoCodesIsTheEvenOneAndItsNeighboursAreNot) {
  for (int code = 0; code < 0x7e; ++code) {
    const float middle =
        static_cast<float>((ValueOfE4m3(code) + ValueOfE4m3(code + 1)) / 2);  // exact
    EXPECT_EQ(F32ToE4m3(middle), code + code % 2);
    EXPECT_EQ(F32ToE4m3(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(F32ToE4m3(std::nextafter(middle, 1e9f)), code + 1);
    EXPECT_EQ(F32ToE4m3(-middle), 0x80 | (code + code % 2));
  }
}

TEST(E4m3, AnyFloatNarrowsToTheNearestCodeAndNoneToANan) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    const uint8_t code = F32ToE4m3(value);
    ASSERT_NE(code & 0x7f, 0x7f) << value;
    if (std::isfinite(value)) {
      ASSERT_EQ(code, NearestByAll(value)) << value;
    }
  }
  EXPECT_EQ(F32ToE4m3(std::numeric_limits<float>::max()), 0x7e);
  EXPECT_EQ(F32ToE4m3(std::numeric_limits<float>::denorm_min()), 0);
}

}  // namespace
}  // namespace baton
