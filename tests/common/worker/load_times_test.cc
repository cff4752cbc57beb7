#include "common/worker/load_times.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(LoadTimes, NamesTheStagesThatTookLongInTheirOrder) {
  EXPECT_EQ(LoadTimesText({}), "0.0 s");
  EXPECT_EQ(LoadTimesText({{"weights", absl::Milliseconds(3100)},
                           {"identity", absl::Milliseconds(20)},
                           {"largest step", absl::Milliseconds(500)}}),
            "3.6 s: weights 3.1 s, largest step 0.5 s");
  EXPECT_EQ(LoadTimesText({{"weights", absl::Milliseconds(10)}}), "0.0 s");
}

}  // namespace
}  // namespace baton
