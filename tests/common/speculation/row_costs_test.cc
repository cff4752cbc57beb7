#include "common/speculation/row_costs.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

absl::Duration StepOf(int rows, double fixed, double row) {
  return absl::Seconds(0.001 * (fixed + row * rows));
}

TEST(RowCosts, AreTheUsualOnesUntilStepsDiffer) {
  RowCosts costs;
  const double usual = costs.fixed_rows();
  EXPECT_GT(usual, 0);
  EXPECT_EQ(costs.row_time(), absl::ZeroDuration());
  for (int i = 0; i < 100; ++i) costs.Observe(1, absl::Milliseconds(20));
  EXPECT_NEAR(costs.fixed_rows(), usual, 0.01);
  costs.Observe(0, absl::Milliseconds(20));
  costs.Observe(1, absl::ZeroDuration());
  EXPECT_NEAR(costs.fixed_rows(), usual, 0.01);
}

TEST(RowCosts, FollowTheSteps) {
  RowCosts costs;
  for (const double fixed : {20.0, 2.0}) {
    for (int i = 0; i < 600; ++i) costs.Observe(1 + i % 9, StepOf(1 + i % 9, fixed, 1));
    EXPECT_NEAR(costs.fixed_rows(), fixed, 0.15 * fixed);
    EXPECT_NEAR(absl::ToDoubleMilliseconds(costs.row_time()), 1, 0.15);
  }
}

TEST(RowCosts, AreBoundedWhereRowsCostNothingOrEverything) {
  RowCosts free;
  RowCosts dear;
  for (int i = 0; i < 600; ++i) {
    free.Observe(1 + 8 * (i % 9), StepOf(1, 10, 0));
    dear.Observe(1 + i % 9, absl::Milliseconds((1 + i % 9) * (1 + i % 9)));
  }
  EXPECT_GT(free.fixed_rows(), 500);
  EXPECT_LE(free.fixed_rows(), 1000);
  EXPECT_EQ(dear.fixed_rows(), 0);
}

}  // namespace
}  // namespace baton
