#include "common/backend/exact_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace baton {
namespace {

// Distance in units of the last place of `expected`, as a float (subnormals included).
double FloatUlps(float value, double expected) {
  int exponent = 0;
  std::frexp(expected, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(value - expected) / unit;
}

double DoubleUlps(double value, long double expected) {
  int exponent = 0;
  std::frexp(static_cast<double>(expected), &exponent);
  const long double unit = std::ldexp(1.0L, std::max(exponent - 53, -1074));
  return static_cast<double>(std::fabs(value - expected) / unit);
}

TEST(ExpF, IsWithinOneUlpOverTheWholeRange) {
  double worst = 0;
  for (float x = -103.9f; x < 88.7f; x += 0.00037f) {
    worst = std::max(worst, FloatUlps(ExpF(x), std::exp(double{x})));
  }
  EXPECT_LE(worst, 1.01);
}

TEST(ExpF, HasTheLimitsOfTheFunction) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ExpF(0), 1);
  EXPECT_EQ(ExpF(-0.0f), 1);
  EXPECT_EQ(ExpF(-infinity), 0);
  EXPECT_EQ(ExpF(-1000), 0);
  EXPECT_EQ(ExpF(infinity), infinity);
  EXPECT_EQ(ExpF(100), infinity);
  EXPECT_TRUE(std::isnan(ExpF(std::numeric_limits<float>::quiet_NaN())));
}

TEST(SiluF, IsNearTheFunctionAndSound) {
  for (float x = -80; x < 80; x += 0.0013f) {
    EXPECT_LE(FloatUlps(SiluF(x), x / (1.0 + std::exp(-double{x}))), 3) << x;
  }
  EXPECT_EQ(SiluF(-1000), 0);
  EXPECT_EQ(SiluF(1000), 1000);
}

TEST(DoubleFunctions, AreWithinAFewUlps) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponents(-700, 700);
  double worst_exp = 0;
  double worst_log = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = exponents(random);
    worst_exp = std::max(worst_exp, DoubleUlps(Exp(x), std::exp(static_cast<long double>(x))));
    const double y = std::exp(x);
    worst_log = std::max(worst_log, DoubleUlps(Log(y), std::log(static_cast<long double>(y))));
    const double near_one = 1 + x * 1e-4;
    worst_log = std::max(worst_log,
                         DoubleUlps(Log(near_one), std::log(static_cast<long double>(near_one))));
  }
  EXPECT_LE(worst_exp, 4);
  EXPECT_LE(worst_log, 4);
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Log(1), 0);
  EXPECT_TRUE(std::isinf(Log(0)));
  EXPECT_TRUE(std::isnan(Log(-1)));
  EXPECT_EQ(Exp(-1000), 0);
  EXPECT_TRUE(std::isinf(Exp(1000)));
}

TEST(DoubleFunctions, PowIsNearEnoughForFrequencies) {
  for (const double base : {10000.0, 100000.0, 500000.0, 1000000.0}) {
    for (int i = 0; i < 128; ++i) {
      const double exponent = -i / 128.0;
      EXPECT_LE(DoubleUlps(Pow(base, exponent), std::pow(static_cast<long double>(base),
                                                         static_cast<long double>(exponent))),
                20);
    }
  }
  EXPECT_EQ(Pow(10000, 0), 1);
}

// The error is absolute: near the function's zeros a relative one means nothing.
TEST(DoubleFunctions, SinAndCosAreExactToAFloatForMillionsOfRadians) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> angles(-0x1p30, 0x1p30);
  std::uniform_real_distribution<double> small(-10, 10);
  for (int i = 0; i < 100000; ++i) {
    for (const double x : {angles(random), small(random)}) {
      EXPECT_NEAR(Sin(x), std::sin(x), 1e-15) << x;
      EXPECT_NEAR(Cos(x), std::cos(x), 1e-15) << x;
    }
  }
  EXPECT_EQ(Sin(0), 0);
  EXPECT_EQ(Cos(0), 1);
}

}  // namespace
}  // namespace baton
