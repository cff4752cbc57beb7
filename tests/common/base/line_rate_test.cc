#include "common/base/line_rate.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(LineRate, AllowsAsManyLinesInEachSecondAndNoMore) {
  LineRate rate;
  const absl::Time start = absl::FromUnixSeconds(1000);
  for (int second = 0; second < 3; ++second) {
    int allowed = 0;
    for (int i = 0; i < 1000; ++i) {
      if (rate.Take(start + absl::Seconds(second) + absl::Microseconds(i))) ++allowed;
    }
    EXPECT_EQ(allowed, LineRate::kPerSecond) << second;
  }
}

}  // namespace
}  // namespace baton
