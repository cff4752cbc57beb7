#include "bench/serve/load_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include <nlohmann/json.hpp>

#include "common/base/status_macros.h"
#include "common/flags/flag_value.h"

namespace baton {
namespace {

using Series = std::vector<float> LoadSamples::*;
constexpr std::pair<const char*, Series> kSeries[] = {
    {"ttft_ms", &LoadSamples::ttft_ms},       {"itl_ms", &LoadSamples::itl_ms},
    {"tpot_ms", &LoadSamples::tpot_ms},       {"e2e_ms", &LoadSamples::e2e_ms},
    {"refusal_ms", &LoadSamples::refusal_ms}, {"send_lag_ms", &LoadSamples::send_lag_ms}};

double Mean(const std::vector<float>& samples) {
  if (samples.empty()) return 0;
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

nlohmann::ordered_json Summary(const std::vector<float>& samples) {
  return {{"mean", Mean(samples)},           {"p50", Percentile(samples, 0.5)},
          {"p90", Percentile(samples, 0.9)}, {"p99", Percentile(samples, 0.99)},
          {"max", Percentile(samples, 1)},   {"samples", samples.size()}};
}

}  // namespace

absl::StatusOr<LoadObjective> ParseLoadObjective(const std::string& text) {
  LoadObjective objective;
  for (absl::string_view field : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    absl::Duration* const limit = pair.first == "ttft"   ? &objective.ttft
                                  : pair.first == "itl"  ? &objective.itl
                                  : pair.first == "tpot" ? &objective.tpot
                                  : pair.first == "e2e"  ? &objective.e2e
                                                         : nullptr;
    if (limit == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", pair.first, "' is none of ttft, itl, tpot, e2e"));
    }
    BATON_ASSIGN_OR_RETURN(*limit, ParseDurationValue(pair.second));
  }
  return objective;
}

double Percentile(std::vector<float> samples, double p) {
  if (samples.empty()) return 0;
  const double rank = std::ceil(p * static_cast<double>(samples.size()));
  const auto index = static_cast<std::ptrdiff_t>(std::max(rank - 1, 0.0));
  std::nth_element(samples.begin(), samples.begin() + index, samples.end());
  return samples[static_cast<size_t>(index)];
}

std::string FormatJson(const LoadReport& report) {
  const double seconds = absl::ToDoubleSeconds(report.window);
  nlohmann::ordered_json json;
  json["window_s"] = seconds;
  json["generator_cpu_share"] = report.cpu_share;
  for (const LoadSamples& load : report.classes) {
    nlohmann::ordered_json& row = json["classes"][load.name];
    row["offered"] = load.offered;
    row["refused"] = load.refused;
    row["failed"] = load.failed;
    row["completed"] = load.completed;
    row["cut"] = load.cut;
    row["good"] = load.good;
    row["offered_per_s"] = static_cast<double>(load.offered) / seconds;
    row["completed_per_s"] = static_cast<double>(load.completed) / seconds;
    row["goodput_per_s"] = static_cast<double>(load.good) / seconds;
    row["tokens_per_s"] = static_cast<double>(load.tokens) / seconds;
    row["resumed"] = load.resumed;
    row["local_prefills"] = load.local_prefills;
    for (const auto& [name, series] : kSeries) row[name] = Summary(load.*series);
    row["failures"] = load.failures;
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string FormatTable(const LoadReport& report) {
  const double seconds = absl::ToDoubleSeconds(report.window);
  std::string out = absl::StrFormat("%.1f s measured; the generator took %.1f %% of the machine\n",
                                    seconds, 100 * report.cpu_share);
  for (const LoadSamples& load : report.classes) {
    absl::StrAppendFormat(
        &out,
        "\n%s: offered %d (%.1f/s), refused %d, failed %d, completed %d (%.1f/s), cut %d; "
        "goodput %.1f/s, %.0f tokens/s\n",
        load.name, load.offered, static_cast<double>(load.offered) / seconds, load.refused,
        load.failed, load.completed, static_cast<double>(load.completed) / seconds, load.cut,
        static_cast<double>(load.good) / seconds, static_cast<double>(load.tokens) / seconds);
    absl::StrAppendFormat(&out, "| %-12s | %9s | %9s | %9s | %9s | %9s | %8s |\n", "", "mean",
                          "p50", "p90", "p99", "max", "samples");
    absl::StrAppendFormat(&out, "|%s|%s:|%s:|%s:|%s:|%s:|%s:|\n", std::string(14, '-'),
                          std::string(10, '-'), std::string(10, '-'), std::string(10, '-'),
                          std::string(10, '-'), std::string(10, '-'), std::string(9, '-'));
    for (const auto& [name, series] : kSeries) {
      const std::vector<float>& samples = load.*series;
      if (samples.empty()) continue;
      absl::StrAppendFormat(&out, "| %-12s | %9.2f | %9.2f | %9.2f | %9.2f | %9.2f | %8d |\n", name,
                            Mean(samples), Percentile(samples, 0.5), Percentile(samples, 0.9),
                            Percentile(samples, 0.99), Percentile(samples, 1), samples.size());
    }
    for (const auto& [message, count] : load.failures) {
      absl::StrAppendFormat(&out, "%d failed: %s\n", count, message);
    }
  }
  return out;
}

}  // namespace baton
