#include "bench/serve/report/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace baton {
namespace {

// Sizes in the units of the viewBox, which are pixels at full width.
constexpr double kWidth = 720, kHeight = 320;
constexpr double kLeft = 74, kRight = 16, kTop = 48, kBottom = 48;
constexpr double kBarHeight = 26, kBarLeft = 160, kBarRight = 90;
constexpr int kTicks = 6;
constexpr size_t kMostTicks = 12;

std::string NumberText(double value) {
  if (value != 0 && (std::abs(value) >= 1e6 || std::abs(value) < 1e-3)) {
    return absl::StrFormat("%.0e", value);
  }
  return absl::StrFormat("%.6g", value);
}

// 1, 2 or 5 times a power of ten, so that some kTicks of them make `span`.
double NiceStep(double span) {
  const double raw = span / kTicks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

// Maps the values of an axis to [0, 1], and has its ticks.
class Scale {
 public:
  Scale(const Chart& chart, const ChartAxis& axis, double ChartPoint::*coordinate)
      : logarithmic_(axis.logarithmic) {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) {
        most = std::max(most, point.*coordinate);
        if (point.*coordinate > 0) least = std::min(least, point.*coordinate);
      }
    }
    if (logarithmic_ && most > 0) {
      SetLogarithmic(least, most);
    } else {
      logarithmic_ = false;
      SetLinear(most);
    }
  }

  double At(double value) const {
    if (!logarithmic_) return (value - low_) / (high_ - low_);
    return std::log(std::max(value, low_) / low_) / std::log(high_ / low_);
  }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  void SetLinear(double most) {
    const double step = NiceStep(most > 0 ? most : 1);
    high_ = std::max(1.0, std::ceil(most / step - 1e-9)) * step;
    for (int i = 0; i * step <= high_ * (1 + 1e-9); ++i) ticks_.push_back(i * step);
  }

  // From a 1, 2 or 5 at or below the least to one at or above the most.
  void SetLogarithmic(double least, double most) {
    std::vector<double> marks;
    const auto first = static_cast<int>(std::floor(std::log10(least))) - 1;
    const auto last = static_cast<int>(std::ceil(std::log10(most))) + 1;
    for (int power = first; power <= last; ++power) {
      for (const double factor : {1.0, 2.0, 5.0}) marks.push_back(factor * std::pow(10, power));
    }
    const auto begin = std::upper_bound(marks.begin(), marks.end(), least) - 1;
    auto end = std::lower_bound(marks.begin(), marks.end(), most);
    if (end == begin) ++end;
    low_ = *begin;
    high_ = *end;
    ticks_.assign(begin, end + 1);
    if (ticks_.size() <= kMostTicks) return;
    std::vector<double> powers;  // only those of ten
    for (const double tick : ticks_) {
      const double exponent = std::log10(tick);
      if (std::abs(exponent - std::round(exponent)) < 1e-6) powers.push_back(tick);
    }
    ticks_ = powers;
  }

  bool logarithmic_;
  double low_ = 0, high_ = 1;
  std::vector<double> ticks_;
};

// The places of an axis' values in the picture.
class Frame {
 public:
  explicit Frame(const Chart& chart)
      : x_(chart, chart.x, &ChartPoint::x), y_(chart, chart.y, &ChartPoint::y) {}

  double X(double value) const { return kLeft + x_.At(value) * (kWidth - kLeft - kRight); }
  double Y(double value) const {
    return kHeight - kBottom - y_.At(value) * (kHeight - kTop - kBottom);
  }

  void AppendAxes(const Chart& chart, std::string& out) const {
    const double bottom = kHeight - kBottom, right = kWidth - kRight;
    for (const double tick : x_.ticks()) {
      absl::StrAppendFormat(&out,
                            "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>"
                            "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s"
                            "</text>\n",
                            X(tick), kTop, X(tick), bottom, X(tick), bottom + 16, NumberText(tick));
    }
    for (const double tick : y_.ticks()) {
      absl::StrAppendFormat(&out,
                            "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>"
                            "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s"
                            "</text>\n",
                            kLeft, Y(tick), right, Y(tick), kLeft - 6, Y(tick) + 4,
                            NumberText(tick));
    }
    absl::StrAppendFormat(&out,
                          "<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\"/>"
                          "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s"
                          "</text><text class=\"label\" x=\"%.1f\" y=\"%.1f\" "
                          "text-anchor=\"middle\" transform=\"rotate(-90 %.1f %.1f)\">%s</text>\n",
                          kLeft, kTop, bottom, right, (kLeft + right) / 2, kHeight - 10,
                          EscapeHtml(chart.x.label), 16.0, (kTop + bottom) / 2, 16.0,
                          (kTop + bottom) / 2, EscapeHtml(chart.y.label));
  }

 private:
  Scale x_, y_;
};

void AppendSeries(const ChartSeries& series, size_t index, const Frame& frame, std::string& out) {
  if (series.kind == ChartSeries::Kind::kDots) {
    for (const ChartPoint& point : series.points) {
      absl::StrAppendFormat(&out, "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"2\"/>\n",
                            index, frame.X(point.x), frame.Y(point.y));
    }
    return;
  }
  std::string path;
  for (const ChartPoint& point : series.points) {
    const double x = frame.X(point.x), y = frame.Y(point.y);
    if (path.empty()) {
      path = absl::StrFormat("M%.1f %.1f", x, y);
    } else if (series.kind == ChartSeries::Kind::kSteps) {
      absl::StrAppendFormat(&path, "H%.1fV%.1f", x, y);
    } else {
      absl::StrAppendFormat(&path, "L%.1f %.1f", x, y);
    }
  }
  if (!path.empty())
    absl::StrAppendFormat(&out, "<path class=\"line c%d\" d=\"%s\"/>\n", index, path);
}

void AppendLegend(const Chart& chart, std::string& out) {
  double x = kLeft;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    absl::StrAppendFormat(&out,
                          "<rect class=\"key c%d\" x=\"%.1f\" y=\"29\" width=\"12\" height=\"5\"/>"
                          "<text class=\"tick\" x=\"%.1f\" y=\"36\">%s</text>\n",
                          i, x, x + 17, EscapeHtml(chart.series[i].name));
    x += 34 + 6.6 * static_cast<double>(chart.series[i].name.size());
  }
}

std::string Begin(const std::string& title, double height) {
  return absl::StrFormat(
      "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">\n"
      "<text class=\"title\" x=\"%.1f\" y=\"18\">%s</text>\n",
      kWidth, height, EscapeHtml(title), 8.0, EscapeHtml(title));
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string FormatSvg(const Chart& chart) {
  std::string out = Begin(chart.title, kHeight);
  const bool has_points =
      std::any_of(chart.series.begin(), chart.series.end(),
                  [](const ChartSeries& series) { return !series.points.empty(); });
  if (!has_points) {
    absl::StrAppendFormat(&out,
                          "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">no "
                          "samples</text>\n",
                          kWidth / 2, kHeight / 2);
  } else {
    const Frame frame(chart);
    frame.AppendAxes(chart, out);
    for (size_t i = 0; i < chart.series.size(); ++i) AppendSeries(chart.series[i], i, frame, out);
    AppendLegend(chart, out);
  }
  return out + "</svg>\n";
}

std::string FormatBars(const std::string& title, const std::string& label,
                       const std::vector<ChartBar>& bars) {
  std::string out = Begin(title, 64 + kBarHeight * static_cast<double>(bars.size()));
  double most = 0;
  for (const ChartBar& bar : bars) most = std::max(most, bar.value);
  double y = 32;
  for (const ChartBar& bar : bars) {
    const double width = most > 0 ? bar.value / most * (kWidth - kBarLeft - kBarRight) : 0;
    absl::StrAppendFormat(
        &out,
        "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>"
        "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>"
        "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%.4g</text>\n",
        kBarLeft - 8, y + 15, EscapeHtml(bar.name), kBarLeft, y + 3, width, kBarHeight - 8,
        kBarLeft + width + 6, y + 15, bar.value);
    y += kBarHeight;
  }
  absl::StrAppendFormat(&out,
                        "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s"
                        "</text>\n",
                        (kBarLeft + kWidth - kBarRight) / 2, y + 20, EscapeHtml(label));
  return out + "</svg>\n";
}

std::string ChartStyle() {
  return R"(:root { color-scheme: light dark; --back: #fff; --text: #1d2733; --soft: #5a6775;
  --line: #dfe4ea; --warn: #8a4b00; --warn-back: #fff4e0;
  --c0: #1f6feb; --c1: #d1560b; --c2: #1a7f4b; --c3: #8250df; --c4: #bf3989; --c5: #6b7280; }
@media (prefers-color-scheme: dark) {
  :root { --back: #12171d; --text: #e4e9ee; --soft: #9aa7b4; --line: #2b343e; --warn: #ffcf8a;
    --warn-back: #33270f; --c0: #6cb0ff; --c1: #ff9a5c; --c2: #5fd394; --c3: #c3a3ff;
    --c4: #ff8fcb; --c5: #a5afba; } }
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif;
  max-width: 1500px; margin: 0 auto; padding: 16px; }
h1 { font-size: 22px; } h2 { font-size: 18px; margin-top: 32px; }
.table { overflow-x: auto; }
table { border-collapse: collapse; } th, td { padding: 3px 12px; text-align: right;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; } thead th { color: var(--soft); }
.warning { background: var(--warn-back); color: var(--warn); padding: 8px 12px;
  border-radius: 6px; }
.charts { display: grid; margin-top: 24px; gap: 20px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr)); }
svg { width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--text); font-family: inherit; }
.title { font-size: 14px; font-weight: 600; } .tick { font-size: 11px; } .label { font-size: 12px; }
svg .tick, svg .label { fill: var(--soft); } .grid { stroke: var(--line); }
.axis { fill: none; stroke: var(--soft); } .line { fill: none; stroke-width: 1.8; }
.dot { fill-opacity: 0.55; } .bar { fill: var(--c0); }
.line.c0 { stroke: var(--c0); } .line.c1 { stroke: var(--c1); stroke-dasharray: 7 4; }
.line.c2 { stroke: var(--c2); }
.line.c3 { stroke: var(--c3); } .line.c4 { stroke: var(--c4); } .line.c5 { stroke: var(--c5); }
.dot.c0, .key.c0 { fill: var(--c0); } .dot.c1, .key.c1 { fill: var(--c1); }
.dot.c2, .key.c2 { fill: var(--c2); } .dot.c3, .key.c3 { fill: var(--c3); }
.dot.c4, .key.c4 { fill: var(--c4); } .dot.c5, .key.c5 { fill: var(--c5); }
)";
}

}  // namespace baton
