#include "bench/serve/report/load_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <nlohmann/json.hpp>

#include "bench/serve/report/percentile.h"

namespace baton {
namespace {

constexpr double kNanosecondsPerMs = 1e6;

double PerSecond(uint64_t count, double seconds) { return static_cast<double>(count) / seconds; }

nlohmann::ordered_json SummaryJson(const SampleSeries& series) {
  const SeriesSummary summary = Summarise(series);
  return {{"mean", summary.mean},      {"p50", summary.p50}, {"p90", summary.p90},
          {"p95", summary.p95},        {"p99", summary.p99}, {"max", summary.max},
          {"samples", summary.samples}};
}

nlohmann::ordered_json ClassJson(const LoadSamples& load, double seconds) {
  nlohmann::ordered_json row;
  row["offered"] = load.offered;
  row["refused"] = load.refused;
  row["failed"] = load.failed;
  row["completed"] = load.completed;
  row["cut"] = load.cut;
  row["good"] = load.good;
  row["good_share"] = GoodShare(load);
  row["shorter"] = load.shorter;
  row["offered_per_s"] = PerSecond(load.offered, seconds);
  row["completed_per_s"] = PerSecond(load.completed, seconds);
  row["goodput_per_s"] = PerSecond(load.good, seconds);
  row["tokens_per_s"] = PerSecond(load.tokens, seconds);
  row["input_tokens_per_s"] = PerSecond(load.input_tokens, seconds);
  row["tokens_per_message"] =
      load.messages == 0 ? 0 : PerSecond(load.tokens, static_cast<double>(load.messages));
  row["spread"] = load.spread;
  row["uncounted"] = load.uncounted;
  row["resumed"] = load.resumed;
  row["local_prefills"] = load.local_prefills;
  for (const NamedSeries& named : kLoadSeries) row[named.name] = SummaryJson(load.*named.series);
  row["stages"] = nlohmann::ordered_json::object();
  for (size_t i = 0; i < kStages; ++i) {
    if (load.stages[i].empty()) continue;
    row["stages"][absl::StrCat(kStageNames[i], "_ms")] = SummaryJson(load.stages[i]);
  }
  row["kinds"] = load.kinds;
  row["failures"] = load.failures;
  return row;
}

void AppendRow(const std::string& name, const SampleSeries& series, std::string& out) {
  if (series.empty()) return;
  const SeriesSummary row = Summarise(series);
  absl::StrAppendFormat(&out, "| %-24s | %9.2f | %9.2f | %9.2f | %9.2f | %9.2f | %9.2f | %8d |\n",
                        name, row.mean, row.p50, row.p90, row.p95, row.p99, row.max, row.samples);
}

void AppendClass(const LoadSamples& load, double seconds, std::string& out) {
  absl::StrAppendFormat(
      &out, "\n%s: offered %d (%.1f/s), refused %d, failed %d, completed %d (%.1f/s), cut %d\n",
      load.name, load.offered, PerSecond(load.offered, seconds), load.refused, load.failed,
      load.completed, PerSecond(load.completed, seconds), load.cut);
  absl::StrAppendFormat(&out, "goodput %.1f/s (%.1f %%); tokens/s: %.0f in, %.0f out\n",
                        PerSecond(load.good, seconds), 100 * GoodShare(load),
                        PerSecond(load.input_tokens, seconds), PerSecond(load.tokens, seconds));
  absl::StrAppendFormat(&out, "| %-24s | %9s | %9s | %9s | %9s | %9s | %9s | %8s |\n", "", "mean",
                        "p50", "p90", "p95", "p99", "max", "samples");
  absl::StrAppend(&out, "|", std::string(26, '-'), "|");
  for (int i = 0; i < 6; ++i) absl::StrAppend(&out, std::string(10, '-'), ":|");
  absl::StrAppend(&out, std::string(9, '-'), ":|\n");
  for (const NamedSeries& named : kLoadSeries) AppendRow(named.name, load.*named.series, out);
  for (size_t i = 0; i < kStages; ++i) {
    AppendRow(absl::StrCat("  ", kStageNames[i], "_ms"), load.stages[i], out);
  }
  for (const auto& [kind, count] : load.kinds) {
    absl::StrAppendFormat(&out, "%d ended with %s\n", count, kind);
  }
  for (const auto& [message, count] : load.failures) {
    absl::StrAppendFormat(&out, "%d failed: %s\n", count, message);
  }
}

}  // namespace

double LoadReport::late_share() const {
  uint64_t late = 0, sent = 0;
  for (const LoadSamples& load : classes) {
    sent += load.send_lag.size();
    late += static_cast<uint64_t>(
        std::count_if(load.send_lag.begin(), load.send_lag.end(),
                      [](const TimedSample& lag) { return lag.value_ns > kLateNanoseconds; }));
  }
  return sent == 0 ? 0 : static_cast<double>(late) / static_cast<double>(sent);
}

SeriesSummary Summarise(const SampleSeries& series) {
  SeriesSummary summary{.samples = series.size()};
  if (series.empty()) return summary;
  std::vector<int64_t> values;
  values.reserve(series.size());
  int64_t sum = 0;
  for (const TimedSample& sample : series) {
    values.push_back(sample.value_ns);
    sum += sample.value_ns;
  }
  std::sort(values.begin(), values.end());
  summary.mean =
      static_cast<double>(sum) / (static_cast<double>(values.size()) * kNanosecondsPerMs);
  const auto at = [&](int percent) {
    return static_cast<double>(PercentileOfSorted(values, percent)) / kNanosecondsPerMs;
  };
  summary.p50 = at(50);
  summary.p90 = at(90);
  summary.p95 = at(95);
  summary.p99 = at(99);
  summary.max = at(100);
  return summary;
}

double GoodShare(const LoadSamples& load) {
  const uint64_t whole = load.offered - load.cut;
  return whole == 0 ? 0 : static_cast<double>(load.good) / static_cast<double>(whole);
}

std::vector<std::string> Warnings(const LoadReport& report) {
  std::vector<std::string> warnings;
  if (!report.kept_up()) {
    warnings.push_back(absl::StrFormat(
        "the generator could not keep up: %.1f %% of the requests were sent more than 10 ms late, "
        "and its thread was busy for %.0f %% of the time; lower the load or run several generators",
        100 * report.late_share(), 100 * report.thread_busy));
  }
  for (const LoadSamples& load : report.classes) {
    const auto warn = [&](uint64_t count, const char* what) {
      if (count > 0) warnings.push_back(absl::StrFormat("%s: %d %s", load.name, count, what));
    };
    warn(load.shorter, "answers were shorter than asked for");
    warn(load.spread,
         "answers told their tokens only as a sum, which is spread evenly over their messages");
    warn(load.uncounted,
         "answers did not tell their tokens; each message counts as one, so tokens/s and TPOT are "
         "only as good as that");
    if (100 * load.tokens > 101 * load.messages) {
      warnings.push_back(absl::StrFormat(
          "%s: messages had %.2f tokens in the mean; itl_ms is the time between messages, tpot_ms "
          "that of a token",
          load.name, PerSecond(load.tokens, static_cast<double>(load.messages))));
    }
  }
  return warnings;
}

std::string FormatJson(const LoadReport& report) {
  nlohmann::ordered_json json;
  json["target"] = report.target;
  json["objective"] = report.objective;
  json["window_s"] = report.seconds();
  json["generator_cpu_share"] = report.cpu_share;
  json["generator_thread_busy"] = report.thread_busy;
  json["late_share"] = report.late_share();
  json["kept_up"] = report.kept_up();
  json["warnings"] = Warnings(report);
  for (const LoadSamples& load : report.classes) {
    json["classes"][load.name] = ClassJson(load, report.seconds());
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string FormatTable(const LoadReport& report) {
  std::string out = absl::StrFormat(
      "%.1f s measured; the generator took %.1f %% of the machine; times in ms, percentiles by "
      "nearest rank\n",
      report.seconds(), 100 * report.cpu_share);
  for (const LoadSamples& load : report.classes) AppendClass(load, report.seconds(), out);
  for (const std::string& warning : Warnings(report)) {
    absl::StrAppend(&out, "\nNOTE: ", warning, "\n");
  }
  return out;
}

}  // namespace baton
