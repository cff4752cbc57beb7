#include "bench/engine/bench_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <nlohmann/json.hpp>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr double kGiga = 1e9;

// The name of a test in the table, such as "pp512 @ d4096, 16 sequences".
std::string Title(const BenchResult& result) {
  std::string title = result.test;
  if (result.depth > 0) absl::StrAppend(&title, " @ d", result.depth);
  if (result.batch > 1) absl::StrAppend(&title, ", ", result.batch, " sequences");
  return title;
}

// One line about the processor and its limits.
std::string Device(const BenchReport& report) {
  const BenchPeaks& peaks = report.peaks;
  if (report.device != "cpu") {
    return absl::StrFormat("%s: copies %.0f GB/s, products %.0f GFLOP/s", report.name,
                           peaks.memory_gb_s, peaks.float_gflops);
  }
  return absl::StrFormat("%s, %s, %d thread%s: reads %.1f GB/s, int8 %.0f GOP/s, f32 %.0f GFLOP/s",
                         report.name, report.isa, report.threads, report.threads == 1 ? "" : "s",
                         peaks.memory_gb_s, peaks.int8_gops, peaks.float_gflops);
}

}  // namespace

double BenchResult::Mean() const {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double BenchResult::Stdev() const {
  if (samples.size() < 2) return 0;
  const double mean = Mean();
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  return std::sqrt(squares / static_cast<double>(samples.size() - 1));
}

double BenchResult::Share(const BenchPeaks& peaks) const {
  if (limit == Limit::kPeak) {
    double least_seconds = 0;
    if (work.int8_ops > 0) least_seconds += work.int8_ops / (peaks.int8_gops * kGiga);
    if (work.f32_ops > 0) least_seconds += work.f32_ops / (peaks.float_gflops * kGiga);
    return Mean() * least_seconds;
  }
  BATON_CHECK(read_gb_s.size() == samples.size(), "one rate for each sample");
  std::vector<double> shares;
  for (size_t i = 0; i < samples.size(); ++i) {
    shares.push_back(samples[i] * work.bytes / (read_gb_s[i] * kGiga));
  }
  std::sort(shares.begin(), shares.end());
  return (shares[(shares.size() - 1) / 2] + shares[shares.size() / 2]) / 2;
}

std::string FormatJson(const BenchReport& report) {
  nlohmann::ordered_json json;
  json["model"] = report.model;
  json["weights_type"] = report.weights_type;
  json["model_bytes"] = report.model_bytes;
  json["repacked_bytes"] = report.repacked_bytes;
  json["kv_cache_dtype"] = report.kv_cache_dtype;
  json["layers"] = report.layers;
  json["kv_bytes_per_token"] = report.kv_bytes_per_token;
  json["block_size"] = report.block_size;
  json["max_num_batched_tokens"] = report.max_num_batched_tokens;
  json["device"] = report.device;
  if (report.device == "cpu") {
    json["cpu"] = report.name;
    json["isa"] = report.isa;
    json["threads"] = report.threads;
    json["memory_read_gb_s"] = report.peaks.memory_gb_s;
    json["int8_gops"] = report.peaks.int8_gops;
    json["f32_gflops"] = report.peaks.float_gflops;
  } else {
    json["gpu"] = report.name;
    json["copy_gb_s"] = report.peaks.memory_gb_s;
    json["gemm_gflops"] = report.peaks.float_gflops;
  }
  json["results"] = nlohmann::ordered_json::array();
  for (const BenchResult& result : report.results) {
    nlohmann::ordered_json row;
    row["test"] = result.test;
    row["depth"] = result.depth;
    row["batch"] = result.batch;
    row["tokens_per_s"] = result.Mean();
    row["stdev"] = result.Stdev();
    row["samples"] = result.samples;
    row[result.limit == BenchResult::Limit::kBandwidth ? "share_of_bandwidth" : "share_of_peak"] =
        result.Share(report.peaks);
    if (result.limit == BenchResult::Limit::kBandwidth) {
      row["step_us"] = result.batch * 1e6 / result.Mean();
    }
    json["results"].push_back(std::move(row));
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string FormatTable(const BenchReport& report) {
  constexpr double kMebi = 1024.0 * 1024.0;
  std::string out = absl::StrFormat(
      "%s, %s, %.1f MiB (%.1f MiB in memory), KV cache %s\n%s\n\n", report.model,
      report.weights_type, static_cast<double>(report.model_bytes) / kMebi,
      static_cast<double>(report.repacked_bytes) / kMebi, report.kv_cache_dtype, Device(report));
  absl::StrAppendFormat(&out, "| %-28s | %20s | %20s |\n", "test", "tokens/s", "share");
  absl::StrAppendFormat(&out, "| %s | %s: | %s: |\n", std::string(28, '-'), std::string(19, '-'),
                        std::string(19, '-'));
  for (const BenchResult& result : report.results) {
    const std::string rate = absl::StrFormat("%.2f +- %.2f", result.Mean(), result.Stdev());
    const std::string share = absl::StrFormat("%.1f %% of %s", 100 * result.Share(report.peaks),
                                              result.limit == BenchResult::Limit::kPeak ? "peak"
                                              : report.device == "cpu"                  ? "reads"
                                                                                        : "copies");
    absl::StrAppendFormat(&out, "| %-28s | %20s | %20s |\n", Title(result), rate, share);
  }
  return out;
}

}  // namespace baton
