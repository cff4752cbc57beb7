#include "common/backend/sampling_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace baton {
namespace {

__extension__ using uint128 = unsigned __int128;

TEST(MultiplyHigh, IsTheHighHalfOfTheProduct) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100000; ++round) {
    const uint64_t a = random() >> (random() % 64);
    const uint64_t b = random() >> (random() % 64);
    ASSERT_EQ(MultiplyHigh(a, b), static_cast<uint64_t>(uint128{a} * b >> 64)) << a << " * " << b;
  }
  EXPECT_EQ(MultiplyHigh(~uint64_t{0}, ~uint64_t{0}), ~uint64_t{0} - 1);
}

TEST(TopPWeight, IsTheLeastWeightThatIsNotLessThanTheShare) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<float> uniform(0, 1);
  for (int round = 0; round < 100000; ++round) {
    const uint64_t total = 1 + (random() >> (2 + random() % 62));
    const float top_p = round % 2 == 0 ? uniform(random) : std::ldexp(1.0f, -(round % 40) - 1);
    const uint64_t weight = TopPWeight(total, top_p);
    const auto share = static_cast<uint64_t>(static_cast<double>(top_p) * 0x1p32);
    const auto reaches = [&](uint64_t sum) { return uint128{sum} << 32 >= uint128{total} * share; };
    ASSERT_GT(weight, 0u);
    ASSERT_LE(weight, total);
    ASSERT_TRUE(reaches(weight)) << total << " * " << top_p;
    ASSERT_TRUE(weight == 1 || !reaches(weight - 1)) << total << " * " << top_p;
  }
}

TEST(DrawPoint, LiesBelowTheTotalAndDiffersByIndexAndChoice) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 10000; ++round) {
    const uint64_t total = 1 + (random() >> (1 + random() % 63));
    ASSERT_LT(DrawPoint(random(), round % 5, round, total), total);
  }
  constexpr uint64_t kTotal = uint64_t{1} << 50;
  EXPECT_NE(DrawPoint(1, 0, 0, kTotal), DrawPoint(1, 0, 1, kTotal));
  EXPECT_NE(DrawPoint(1, 0, 0, kTotal), DrawPoint(1, 1, 0, kTotal));
  EXPECT_NE(DrawPoint(1, 0, 0, kTotal), DrawPoint(2, 0, 0, kTotal));
}

TEST(ClampLogit, LeavesWhatIsMaskedAndNothingElseInfinite) {
  EXPECT_EQ(ClampLogit(kMaskedLogit), kMaskedLogit);
  EXPECT_EQ(ClampLogit(-kMaskedLogit), std::numeric_limits<float>::max());
  EXPECT_EQ(ClampLogit(-3), -3);
}

// Constant expressions give the same results as code, on which device code relies: the compiler
// computes them with arithmetic of its own. clang 16 knows no constant fma.
#if !defined(__clang__)
static_assert(Log(1.0) == 0 && ExpF(0) == 1 && ScaledWeight(2, 2, 0.5f) == kOneWeight);
#endif
static_assert(PenalizedLogit(2, 3, {.presence = 1, .frequency = 0.5f, .repetition = 2}) == -1.5f);

}  // namespace
}  // namespace baton
