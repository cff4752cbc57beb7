#include "router/planner/advice.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(Advice, ABalancedSplitIsTheBestOfAll) {
  for (uint32_t workers = 2; workers <= 40; ++workers) {
    for (const double prefill : {0.0, 0.01, 0.3, 1.0, 2.5, 7.0, 90.0}) {
      for (const double decode : {0.0, 0.02, 0.5, 1.0, 3.1, 8.0}) {
        const uint32_t split = BalancedPrefill(prefill, decode, workers);
        ASSERT_GE(split, 1u);
        ASSERT_LT(split, workers);
        for (uint32_t other = 1; other < workers; ++other) {
          EXPECT_LE(BusierRole(prefill, decode, split, workers),
                    BusierRole(prefill, decode, other, workers) + 1e-12)
              << prefill << ":" << decode << " on " << workers << ", " << other;
        }
      }
    }
  }
}

TEST(Advice, WithoutALoadASplitIsEven) {
  EXPECT_EQ(BalancedPrefill(0, 0, 12), 6u);
  EXPECT_EQ(BalancedPrefill(0, 0, 2), 1u);
}

}  // namespace
}  // namespace baton
