#include "bench/serve/report/html_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "bench/serve/report/percentile.h"
#include "bench/serve/report/svg_chart.h"

namespace baton {
namespace {

constexpr size_t kMostDots = 2000;
constexpr size_t kMostSteps = 400;  // steps of a distribution's curve
constexpr int kBins = 60;           // bins of the window's time

double Ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

// The share of samples, in percent, up to each value.
ChartSeries Distribution(const std::string& name, const SampleSeries& series) {
  ChartSeries curve{.name = name, .kind = ChartSeries::Kind::kSteps, .points = {}};
  std::vector<int64_t> values;
  for (const TimedSample& sample : series) values.push_back(sample.value_ns);
  std::sort(values.begin(), values.end());
  const size_t steps = std::min(values.size(), kMostSteps);
  for (size_t i = 1; i <= steps; ++i) {
    const size_t rank = i * values.size() / steps;
    curve.points.push_back({Ms(values[rank - 1]), 100.0 * static_cast<double>(rank) /
                                                      static_cast<double>(values.size())});
  }
  return curve;
}

// Parts the window into equal bins.
class Bins {
 public:
  explicit Bins(const LoadWindow& window)
      : window_(window),
        width_ns_(std::max<int64_t>(1, (window.until_ns - window.from_ns) / kBins)) {}

  int64_t Of(int64_t at_ns) const { return (at_ns - window_.from_ns) / width_ns_; }
  double BeginSeconds(int64_t bin) const { return static_cast<double>(bin * width_ns_) * 1e-9; }
  double MiddleSeconds(int64_t bin) const { return BeginSeconds(bin) + width_seconds() / 2; }
  double Seconds(int64_t at_ns) const {
    return static_cast<double>(at_ns - window_.from_ns) * 1e-9;
  }
  double width_seconds() const { return static_cast<double>(width_ns_) * 1e-9; }

 private:
  LoadWindow window_;
  int64_t width_ns_;
};

// Each sample, or evenly chosen ones and the largest of all if there are too many.
ChartSeries Dots(const std::string& name, const SampleSeries& series, const Bins& bins) {
  ChartSeries dots{.name = name, .kind = ChartSeries::Kind::kDots, .points = {}};
  const size_t step = std::max<size_t>(1, (series.size() + kMostDots - 1) / kMostDots);
  for (size_t begin = 0; begin < series.size(); begin += step) {
    const auto from = series.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto until =
        series.begin() + static_cast<std::ptrdiff_t>(std::min(begin + step, series.size()));
    const TimedSample& largest = *std::max_element(
        from, until,
        [](const TimedSample& a, const TimedSample& b) { return a.value_ns < b.value_ns; });
    dots.points.push_back({bins.Seconds(largest.at_ns), Ms(largest.value_ns)});
  }
  return dots;
}

std::vector<ChartSeries> PercentilesOverTime(const SampleSeries& series, const Bins& bins) {
  std::map<int64_t, std::vector<int64_t>> values;
  for (const TimedSample& sample : series) values[bins.Of(sample.at_ns)].push_back(sample.value_ns);
  std::vector<ChartSeries> lines;
  for (const int percent : {50, 95, 99}) {
    ChartSeries& line = lines.emplace_back();
    line.name = absl::StrCat("p", percent);
    for (const auto& [bin, samples] : values) {
      line.points.push_back({bins.MiddleSeconds(bin), Ms(Percentile(samples, percent))});
    }
  }
  return lines;
}

// How many of the times are in each bin, per second.
ChartSeries RateOverTime(const std::string& name, const std::vector<int64_t>& at_ns,
                         const Bins& bins, int64_t last_bin) {
  std::map<int64_t, uint64_t> counts;
  for (const int64_t at : at_ns) ++counts[bins.Of(at)];
  ChartSeries steps{.name = name, .kind = ChartSeries::Kind::kSteps, .points = {}};
  for (int64_t bin = 0; bin <= last_bin; ++bin) {
    const double rate = static_cast<double>(counts[bin]) / bins.width_seconds();
    steps.points.push_back({bins.BeginSeconds(bin), rate});
    steps.points.push_back({bins.BeginSeconds(bin + 1), rate});
  }
  return steps;
}

std::string GoodputChart(const LoadSamples& load, const Bins& bins) {
  std::vector<int64_t> due, completed;
  for (const TimedSample& sample : load.send_lag) due.push_back(sample.at_ns);
  for (const TimedSample& sample : load.e2e) completed.push_back(sample.at_ns);
  const auto last = std::max_element(due.begin(), due.end());
  const int64_t last_bin = last == due.end() ? -1 : bins.Of(*last);
  return FormatSvg({.title = "Goodput: requests by when they were due",
                    .x = {.label = "time in the window, s"},
                    .y = {.label = "requests/s"},
                    .series = {RateOverTime("due", due, bins, last_bin),
                               RateOverTime("completed", completed, bins, last_bin),
                               RateOverTime("good", load.good_at_ns, bins, last_bin)}});
}

std::string StagesChart(const LoadSamples& load) {
  std::vector<ChartBar> bars;
  for (size_t i = 0; i < kStages; ++i) {
    if (load.stages[i].empty()) continue;
    bars.push_back({kStageNames[i], Summarise(load.stages[i]).mean});
  }
  if (bars.empty()) return "";
  return FormatBars("Stages, as the server tells them", "mean, ms", bars);
}

std::string Charts(const LoadSamples& load, const LoadWindow& window) {
  const Bins bins(window);
  const ChartAxis share{.label = "share of samples, %"};
  const auto time_axis = [](const char* label) {
    return ChartAxis{.label = label, .logarithmic = true};
  };
  std::string out = "<div class=\"charts\">\n";
  absl::StrAppend(
      &out,
      FormatSvg({.title = "Time to first token: distribution",
                 .x = time_axis("TTFT, ms"),
                 .y = share,
                 .series = {Distribution("from when it was due", load.ttft),
                            Distribution("from when it was sent", load.ttft_from_sent)}}),
      FormatSvg({.title = "Inter-token latency: distribution",
                 .x = time_axis("time between two messages with tokens, ms"),
                 .y = share,
                 .series = {Distribution("ITL", load.itl), Distribution("TPOT", load.tpot)}}),
      FormatSvg({.title = "Time to first token over time",
                 .x = {.label = "when the request was due, s"},
                 .y = time_axis("TTFT, ms"),
                 .series = {Dots("a request", load.ttft, bins)}}),
      FormatSvg({.title = "Inter-token latency over time",
                 .x = {.label = "time in the window, s"},
                 .y = time_axis("ITL, ms"),
                 .series = PercentilesOverTime(load.itl, bins)}),
      GoodputChart(load, bins), StagesChart(load));
  return out + "</div>\n";
}

void AppendHtmlRow(const std::string& name, const SampleSeries& series, std::string& out) {
  if (series.empty()) return;
  const SeriesSummary row = Summarise(series);
  absl::StrAppendFormat(&out, "<tr><td>%s</td>", EscapeHtml(name));
  for (const double value : {row.mean, row.p50, row.p90, row.p95, row.p99, row.max}) {
    absl::StrAppendFormat(&out, "<td>%.2f</td>", value);
  }
  absl::StrAppendFormat(&out, "<td>%d</td></tr>\n", row.samples);
}

std::string ClassHtml(const LoadSamples& load, const LoadReport& report) {
  const double seconds = report.seconds();
  const auto rate = [&](uint64_t count) { return static_cast<double>(count) / seconds; };
  std::string out = absl::StrFormat(
      "<h2>%s</h2>\n<p>%d requests due (%.2f/s): %d completed, %d refused, %d failed, %d cut. "
      "Goodput %.2f/s, %.1f %% of the requests%s. Tokens: %.0f/s in, %.0f/s out.</p>\n",
      EscapeHtml(load.name), load.offered, rate(load.offered), load.completed, load.refused,
      load.failed, load.cut, rate(load.good), 100 * GoodShare(load),
      report.objective.empty() ? " (there is no objective)" : "", rate(load.input_tokens),
      rate(load.tokens));
  absl::StrAppend(&out,
                  "<div class=\"table\"><table><thead><tr><th></th><th>mean</th><th>p50</th>"
                  "<th>p90</th><th>p95</th><th>p99</th><th>max</th><th>samples</th></tr></thead>\n"
                  "<tbody>\n");
  for (const NamedSeries& named : kLoadSeries) AppendHtmlRow(named.name, load.*named.series, out);
  for (size_t i = 0; i < kStages; ++i) {
    AppendHtmlRow(absl::StrCat(kStageNames[i], "_ms"), load.stages[i], out);
  }
  absl::StrAppend(&out, "</tbody></table></div>\n");
  for (const auto& [message, count] : load.failures) {
    absl::StrAppendFormat(&out, "<p>%d failed: %s</p>\n", count, EscapeHtml(message));
  }
  return out + Charts(load, report.window);
}

}  // namespace

std::string FormatHtml(const LoadReport& report) {
  std::string out = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>baton bench serve</title>\n<style>\n",
      ChartStyle(), "</style>\n</head>\n<body>\n<h1>baton bench serve</h1>\n");
  absl::StrAppendFormat(
      &out,
      "<p>%s, %.1f s measured%s. Times in ms count from when a request was due, unless it says "
      "otherwise; percentiles are by nearest rank. The generator took %.1f %% of the machine; its "
      "thread was busy for %.1f %% of the time, and %.2f %% of the requests were sent more than "
      "10 ms late.</p>\n",
      EscapeHtml(report.target), report.seconds(),
      report.objective.empty() ? "" : absl::StrCat("; objective ", EscapeHtml(report.objective)),
      100 * report.cpu_share, 100 * report.thread_busy, 100 * report.late_share());
  for (const std::string& warning : Warnings(report)) {
    absl::StrAppend(&out, "<p class=\"warning\">", EscapeHtml(warning), "</p>\n");
  }
  for (const LoadSamples& load : report.classes) absl::StrAppend(&out, ClassHtml(load, report));
  return out + "</body>\n</html>\n";
}

}  // namespace baton
