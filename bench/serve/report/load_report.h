// The results of a load, as JSON and as tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/serve/report/load_samples.h"

namespace baton {

// A request that is sent later than this is late. Where more than a hundredth of them are, or the
// generator's thread was busy for nine tenths of the time, the generator could not keep up.
inline constexpr int64_t kLateNanoseconds = 10'000'000;
inline constexpr double kMostLate = 0.01, kMostBusy = 0.9;

struct LoadReport {
  LoadWindow window;
  std::string target;      // what the load was put on
  std::string objective;   // as it was given
  double cpu_share = 0;    // share of the machine's CPU time that the load generator took
  double thread_busy = 0;  // share of the time in which its one thread computed
  std::vector<LoadSamples> classes{};

  double seconds() const { return static_cast<double>(window.until_ns - window.from_ns) * 1e-9; }
  // Share of all requests that were late.
  double late_share() const;
  bool kept_up() const { return late_share() <= kMostLate && thread_busy < kMostBusy; }
};

// What a series comes to, in milliseconds.
struct SeriesSummary {
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
  size_t samples = 0;
};
SeriesSummary Summarise(const SampleSeries& series);

// The series of times of a class with their names in JSON, such as "ttft_ms"; stages are apart.
struct NamedSeries {
  const char* name;
  SampleSeries LoadSamples::*series;
};
inline constexpr NamedSeries kLoadSeries[] = {
    {"ttft_ms", &LoadSamples::ttft},       {"ttft_from_sent_ms", &LoadSamples::ttft_from_sent},
    {"itl_ms", &LoadSamples::itl},         {"tpot_ms", &LoadSamples::tpot},
    {"e2e_ms", &LoadSamples::e2e},         {"e2e_from_sent_ms", &LoadSamples::e2e_from_sent},
    {"refusal_ms", &LoadSamples::refusal}, {"send_lag_ms", &LoadSamples::send_lag}};

// Share of the requests that the end of the load did not cut which were good.
double GoodShare(const LoadSamples& load);

// One sentence for each thing that a reader of the figures must know, such as that the generator
// could not keep up.
std::vector<std::string> Warnings(const LoadReport& report);

// One JSON object on several lines; docs/load.md lists its fields.
std::string FormatJson(const LoadReport& report);
std::string FormatTable(const LoadReport& report);

}  // namespace baton
