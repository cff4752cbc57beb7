#include "common/base/exact_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace baton {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double UnitsInTheLastPlace(float value, double exact) {
  const auto nearest = static_cast<float>(exact);
  const double unit = std::nextafter(std::fabs(nearest), kInfinity) - std::fabs(nearest);
  return std::fabs(value - exact) / unit;
}

TEST(ExactMath, ExpIsWithinHalfAUnitAndALittle) {
  double worst = 0;
  for (double x = -103; x < 88.7; x += 0.00037) {
    const auto argument = static_cast<float>(x);
    worst = std::max(worst, UnitsInTheLastPlace(ExactExp(argument), std::exp(double{argument})));
  }
  EXPECT_LT(worst, 0.51);
}

TEST(ExactMath, LogIsWithinHalfAUnitAndALittle) {
  double worst = 0;
  for (double x = 1e-44; x < 3e38; x *= 1.00037) {
    const auto argument = static_cast<float>(x);
    worst = std::max(worst, UnitsInTheLastPlace(ExactLog(argument), std::log(double{argument})));
  }
  EXPECT_LT(worst, 0.51);
}

TEST(ExactMath, TheEdgesAreThoseOfTheFunctions) {
  EXPECT_EQ(ExactExp(0), 1);
  EXPECT_EQ(ExactExp(-kInfinity), 0);
  EXPECT_EQ(ExactExp(-1e30f), 0);
  EXPECT_EQ(ExactExp(89), kInfinity);
  EXPECT_EQ(ExactExp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(ExactExp(NAN)));
  EXPECT_EQ(ExactLog(1), 0);
  EXPECT_EQ(ExactLog(0), -kInfinity);
  EXPECT_EQ(ExactLog(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(ExactLog(-1)));
}

}  // namespace
}  // namespace baton
