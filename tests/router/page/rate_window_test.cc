#include "router/page/rate_window.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(RateWindow, TellsTheRateOverTheLastFiveSeconds) {
  RateWindow window;
  WorkerTraffic traffic;
  for (int i = 0; i <= 40; ++i) {  // 10 s: 4 tokens a second, then 40
    traffic.output_tokens += i <= 20 ? 1 : 10;
    const FleetRates rates = window.Take(traffic, At(i * 0.25));
    if (i == 20) {
      EXPECT_DOUBLE_EQ(rates.output_tokens, 4);
    } else if (i == 40) {
      EXPECT_DOUBLE_EQ(rates.output_tokens, 40);
    }
  }
}

TEST(RateWindow, TellsTheMeanExposureOfItsHandOffsAlone) {
  RateWindow window;
  WorkerTraffic traffic = {.hand_offs = 100, .exposed_transfer = absl::Seconds(50)};
  EXPECT_FALSE(window.Take(traffic, At(0)).exposed_transfer.has_value());
  traffic = {.hand_offs = 102,
             .hand_off_bytes = 4000,
             .exposed_transfer = absl::Seconds(50) + absl::Milliseconds(8)};
  const FleetRates rates = window.Take(traffic, At(2));
  EXPECT_DOUBLE_EQ(rates.hand_offs, 1);
  EXPECT_DOUBLE_EQ(rates.hand_off_bytes, 2000);
  EXPECT_EQ(rates.exposed_transfer, absl::Milliseconds(4));
}

TEST(RateWindow, BeginsAnewWithAWorkerThatBeginsAnew) {
  RateWindow window;
  window.Take({.output_tokens = 1000}, At(0));
  EXPECT_EQ(window.Take({.output_tokens = 10}, At(1)).output_tokens, 0);
  EXPECT_DOUBLE_EQ(window.Take({.output_tokens = 30}, At(2)).output_tokens, 20);
}

}  // namespace
}  // namespace baton
