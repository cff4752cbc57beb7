// Charts as inline SVG: lines, dots and bars over two axes with their units.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton {

struct ChartPoint {
  double x = 0, y = 0;
};

struct ChartSeries {
  enum class Kind { kLine, kDots, kSteps };

  std::string name;  // in the legend
  Kind kind = Kind::kLine;
  std::vector<ChartPoint> points;
};

struct ChartAxis {
  std::string label;         // with its unit
  bool logarithmic = false;  // values that are not positive stand at the smallest one that is
};

struct Chart {
  std::string title;
  ChartAxis x, y;
  std::vector<ChartSeries> series;  // at most six, which have colours of their own
};

// An <svg> element whose colours are the classes and variables of ChartStyle. A chart without
// points says so. All text is escaped. Linear axes begin at 0.
std::string FormatSvg(const Chart& chart);

struct ChartBar {
  std::string name;
  double value = 0;
};
// Horizontal bars, each with its name and value.
std::string FormatBars(const std::string& title, const std::string& label,
                       const std::vector<ChartBar>& bars);

// CSS of the charts and of the page around them, light and dark.
std::string ChartStyle();

// `text` as HTML text or as an attribute's value.
std::string EscapeHtml(absl::string_view text);

}  // namespace baton
