#include "client/plan/plan_report.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <nlohmann/json.hpp>

#include "bench/serve/report/percentile.h"

namespace baton {
namespace {

constexpr double kNanosecondsPerMs = 1e6;
constexpr int kPercents[] = {50, 90, 95, 99};

// A series of times in milliseconds.
struct TimesRow {
  const char* name;
  double mean = 0, percentiles[4] = {}, most = 0;
  uint64_t samples = 0;
};

TimesRow RowOf(const char* name, std::vector<int64_t> times_ns) {
  TimesRow row{.name = name, .samples = times_ns.size()};
  if (times_ns.empty()) return row;
  std::sort(times_ns.begin(), times_ns.end());
  const double sum = std::accumulate(times_ns.begin(), times_ns.end(), 0.0);
  row.mean = sum / static_cast<double>(times_ns.size()) / kNanosecondsPerMs;
  for (size_t i = 0; i < 4; ++i) {
    const int64_t at = PercentileOfSorted(times_ns, kPercents[i]);
    row.percentiles[i] = static_cast<double>(at) / kNanosecondsPerMs;
  }
  row.most = static_cast<double>(times_ns.back()) / kNanosecondsPerMs;
  return row;
}

TimesRow RowOf(const char* name, const GapHistogram& gaps) {
  TimesRow row{.name = name,
               .mean = gaps.mean_ns() / kNanosecondsPerMs,
               .most = static_cast<double>(gaps.most_ns()) / kNanosecondsPerMs,
               .samples = gaps.count()};
  for (size_t i = 0; i < 4; ++i) {
    row.percentiles[i] = gaps.PercentileNs(kPercents[i]) / kNanosecondsPerMs;
  }
  return row;
}

std::vector<TimesRow> RowsOf(const PlanResult& result) {
  return {RowOf("ttft_ms", result.ttft_ns),
          RowOf("queue_ms", result.queue_ns),
          RowOf("prefill_ms", result.prefill_ns),
          RowOf("exposed_kv_transfer_ms", result.exposed_ns),
          RowOf("itl_ms", result.itl),
          RowOf("tpot_ms", result.tpot_ns),
          RowOf("e2e_ms", result.e2e_ns)};
}

nlohmann::ordered_json RoleJson(const RoleUse& use) {
  nlohmann::ordered_json json;
  json["workers"] = use.workers;
  json["busy"] = use.busy;
  json["most_busy"] = use.most_busy;
  json["rows_per_step"] = use.rows_per_step;
  json["kv_used"] = use.kv_used;
  json["most_kv_used"] = use.most_kv_used;
  json["link_busy"] = use.link_busy;
  json["preemptions"] = use.preemptions;
  return json;
}

double OverSpan(const PlanResult& result, uint64_t count) {
  return result.span_ns == 0
             ? 0
             : static_cast<double>(count) * 1e9 / static_cast<double>(result.span_ns);
}

double CachedShare(const PlanResult& result) {
  return result.input_tokens == 0
             ? 0
             : static_cast<double>(result.cached_tokens) / static_cast<double>(result.input_tokens);
}

void AppendRole(const char* name, const RoleUse& use, std::string& out) {
  absl::StrAppendFormat(&out,
                        "%s: %d workers, %.1f %% busy (the busiest %.1f %%), %.1f rows per step, "
                        "KV cache %.1f %% used (at most %.1f %%), network %.1f %% busy",
                        name, use.workers, 100 * use.busy, 100 * use.most_busy, use.rows_per_step,
                        100 * use.kv_used, 100 * use.most_kv_used, 100 * use.link_busy);
  if (use.preemptions > 0) absl::StrAppend(&out, ", ", use.preemptions, " preemptions");
  absl::StrAppend(&out, "\n");
}

std::string SearchText(const FoundFleet& found) {
  return absl::StrFormat(
      "%d workers in total: %s (found in %d replays)\n", found.size.total(),
      found.is_smallest ? "the least number that meets the objective"
                        : "this number meets the objective, and a slightly smaller one may too",
      found.replays);
}

}  // namespace

std::vector<std::string> PlanWarnings(const PlanResult& result, const StepCosts& decode) {
  std::vector<std::string> warnings;
  const int most_batch = decode.decodes().back().batch;
  if (result.decode.rows_per_step > most_batch) {
    warnings.push_back(
        absl::StrFormat("decode steps have %.0f sequences on average, but the rates were measured "
                        "with at most %d; measure larger batches (baton bench engine -b)",
                        result.decode.rows_per_step, most_batch));
  }
  if (result.refused > 0) {
    warnings.push_back(
        absl::StrFormat("%d requests were refused, because they waited longer than "
                        "--max-queue-time or are too long for every worker",
                        result.refused));
  }
  if (result.prefill.most_busy > 0.95 || result.decode.most_busy > 0.95) {
    warnings.push_back(
        "a worker is busy for more than 95 % of the time, where a little more load makes waits "
        "much longer");
  }
  return warnings;
}

std::string FormatPlanJson(const PlanReport& report) {
  const PlanResult& result = report.result;
  nlohmann::ordered_json json;
  json["model"] = report.model;
  json["objective"] = report.objective;
  if (report.found.has_value()) {
    json["search"] = {{"total", report.found->size.total()},
                      {"replays", report.found->replays},
                      {"is_smallest", report.found->is_smallest}};
  }
  json["prefill"] = RoleJson(result.prefill);
  json["decode"] = RoleJson(result.decode);
  json["router"] = {{"mean_waiting", result.mean_waiting}, {"most_waiting", result.most_waiting}};
  json["span_s"] = static_cast<double>(result.span_ns) * 1e-9;
  json["offered"] = result.offered;
  json["completed"] = result.completed;
  json["refused"] = result.refused;
  json["good"] = result.good;
  json["good_share"] = result.good_share();
  json["goodput_per_s"] = OverSpan(result, result.good);
  json["tokens_per_s"] = OverSpan(result, result.tokens);
  json["input_tokens_per_s"] = OverSpan(result, result.input_tokens);
  json["cached_share"] = CachedShare(result);
  json["local_prefills"] = result.local_prefills;
  json["sent_bytes"] = result.sent_bytes;
  for (const TimesRow& row : RowsOf(result)) {
    json[row.name] = {{"mean", row.mean},          {"p50", row.percentiles[0]},
                      {"p90", row.percentiles[1]}, {"p95", row.percentiles[2]},
                      {"p99", row.percentiles[3]}, {"max", row.most},
                      {"samples", row.samples}};
  }
  json["warnings"] = report.warnings;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string FormatPlanTable(const PlanReport& report) {
  const PlanResult& result = report.result;
  std::string out =
      absl::StrFormat("%s; times in ms, percentiles by nearest rank\n\n", report.model);
  if (report.found.has_value()) absl::StrAppend(&out, SearchText(*report.found));
  AppendRole("prefill", result.prefill, out);
  AppendRole("decode", result.decode, out);
  absl::StrAppendFormat(&out, "router: %.1f requests waiting on average, at most %d\n",
                        result.mean_waiting, result.most_waiting);
  absl::StrAppendFormat(
      &out, "\noffered %d (%.1f/s), refused %d, completed %d; goodput %.1f/s (%.2f %%)\n",
      result.offered, OverSpan(result, result.offered), result.refused, result.completed,
      OverSpan(result, result.good), 100 * result.good_share());
  absl::StrAppendFormat(&out,
                        "tokens per second: %.0f in (%.1f %% of them cached), %.0f out; %.1f GB of "
                        "KV caches sent\n\n",
                        OverSpan(result, result.input_tokens), 100 * CachedShare(result),
                        OverSpan(result, result.tokens),
                        static_cast<double>(result.sent_bytes) * 1e-9);
  absl::StrAppendFormat(&out, "| %-24s | %9s | %9s | %9s | %9s | %9s | %9s | %9s |\n", "", "mean",
                        "p50", "p90", "p95", "p99", "max", "samples");
  absl::StrAppend(&out, "|", std::string(26, '-'), "|");
  for (int i = 0; i < 7; ++i) absl::StrAppend(&out, std::string(10, '-'), ":|");
  absl::StrAppend(&out, "\n");
  for (const TimesRow& row : RowsOf(result)) {
    absl::StrAppendFormat(&out, "| %-24s | %9.2f | %9.2f | %9.2f | %9.2f | %9.2f | %9.2f | %9d |\n",
                          row.name, row.mean, row.percentiles[0], row.percentiles[1],
                          row.percentiles[2], row.percentiles[3], row.most, row.samples);
  }
  for (const std::string& warning : report.warnings) {
    absl::StrAppend(&out, "\nNOTE: ", warning, "\n");
  }
  return out;
}

}  // namespace baton
