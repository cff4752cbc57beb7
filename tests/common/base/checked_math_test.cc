#include "common/base/checked_math.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(CheckedMath, AgreesWithWiderArithmeticForEveryPairOfBytes) {
  for (unsigned a = 0; a < 256; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      uint8_t result = 0;
      ASSERT_EQ(CheckedAdd(static_cast<uint8_t>(a), static_cast<uint8_t>(b), &result), a + b < 256);
      if (a + b < 256) {
        ASSERT_EQ(result, a + b);
      }
      ASSERT_EQ(CheckedMultiply(static_cast<uint8_t>(a), static_cast<uint8_t>(b), &result),
                a * b < 256);
      if (a * b < 256) {
        ASSERT_EQ(result, a * b);
      }
    }
  }
}

TEST(CheckedMath, SeesOverflowOf64Bits) {
  uint64_t result = 0;
  EXPECT_TRUE(CheckedAdd<uint64_t>(UINT64_MAX - 1, 1, &result));
  EXPECT_EQ(result, UINT64_MAX);
  EXPECT_FALSE(CheckedAdd<uint64_t>(UINT64_MAX, 1, &result));
  EXPECT_TRUE(CheckedMultiply<uint64_t>(UINT64_MAX / 3, 3, &result));
  EXPECT_FALSE(CheckedMultiply<uint64_t>(uint64_t{1} << 32, uint64_t{1} << 32, &result));
}

}  // namespace
}  // namespace baton
