#include "common/base/check.h"

#include <cstddef>

#include "gtest/gtest.h"

namespace baton {
namespace {

void CheckRows(int rows) { BATON_CHECK(rows >= 1 && rows <= 8, "rows must be 1 to 8", rows); }

TEST(CheckDeathTest, AFailureShowsPlaceConditionAndRule) {
  EXPECT_DEATH(BATON_CHECK(1 + 1 == 3, "sums must be right"),
               "check_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3 \\(sums must be right\\)\n");
}

TEST(CheckDeathTest, AFailureShowsTheValueThatViolatesTheRule) {
  CheckRows(1);
  CheckRows(8);
  EXPECT_DEATH(CheckRows(9), "\\(rows must be 1 to 8; rows is 9\\)\n");
  EXPECT_DEATH(CheckRows(-1), "\\(rows must be 1 to 8; rows is -1\\)\n");
  const size_t sizes[] = {3};
  EXPECT_DEATH(BATON_CHECK(sizes[0] > 3, "sizes must be large", sizes[0]), "sizes\\[0\\] is 3\\)");
}

TEST(Check, TheValueIsEvaluatedOnlyOnAFailure) {
  int evaluations = 0;
  BATON_CHECK(evaluations == 0, "no check may evaluate its value", ++evaluations);
  EXPECT_EQ(evaluations, 0);
}

}  // namespace
}  // namespace baton
