#include "bench/serve/report/svg_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace baton {
namespace {

using testing::HasSubstr;
using testing::Not;

Chart Line(std::vector<ChartPoint> points, bool logarithmic) {
  return {.title = "a <title>",
          .x = {.label = "time, s", .logarithmic = logarithmic},
          .y = {.label = "share, %"},
          .series = {{.name = "it", .points = std::move(points)}}};
}

TEST(SvgChart, EndsOfALinearAxisAreAtItsEnds) {
  const std::string svg = FormatSvg(Line({{0, 0}, {10, 100}}, false));
  EXPECT_THAT(svg, HasSubstr("d=\"M74.0 272.0L704.0 48.0\""));
  EXPECT_THAT(svg, HasSubstr("a &lt;title&gt;"));
  EXPECT_THAT(svg, HasSubstr(">time, s</text>"));
  EXPECT_THAT(svg, HasSubstr(">share, %</text>"));
}

TEST(SvgChart, EqualFactorsOfALogarithmicAxisAreEquallyWide) {
  const std::string svg = FormatSvg(Line({{1, 0}, {10, 50}, {100, 100}}, true));
  EXPECT_THAT(svg, HasSubstr("d=\"M74.0 272.0L389.0 160.0L704.0 48.0\""));
}

TEST(SvgChart, OddValuesStillGiveNumbers) {
  for (const double value : {0.0, 1e-9, 5.0, 1e12}) {
    for (const bool logarithmic : {false, true}) {
      const std::string svg = FormatSvg(Line({{value, value}}, logarithmic));
      EXPECT_THAT(svg, Not(HasSubstr("nan"))) << value;
      EXPECT_THAT(svg, Not(HasSubstr("inf"))) << value;
    }
  }
  EXPECT_THAT(FormatSvg(Line({}, true)), HasSubstr("no samples"));
  EXPECT_THAT(FormatBars("t", "ms", {{"zero", 0}}), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace baton
