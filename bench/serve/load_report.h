// What became of a load: samples of each class, and how they are told.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

// What a request must keep to count as good. Infinite: no limit.
struct LoadObjective {
  absl::Duration ttft = absl::InfiniteDuration();  // time to first token
  absl::Duration itl = absl::InfiniteDuration();   // each gap between two messages with tokens
  absl::Duration tpot = absl::InfiniteDuration();  // time per output token after the first, mean
  absl::Duration e2e = absl::InfiniteDuration();   // until its end
};
// "ttft=500ms,itl=100ms".
absl::StatusOr<LoadObjective> ParseLoadObjective(const std::string& text);

// Requests count by the time at which they were to be sent, tokens and gaps by the time at which
// they came: inside the measured window. Times are in milliseconds, and since a request was to be
// sent, not since it was.
struct LoadSamples {
  std::string name;
  uint64_t offered = 0;    // = refused + failed + completed + cut
  uint64_t refused = 0;    // RESOURCE_EXHAUSTED before the first token
  uint64_t failed = 0;     // ended otherwise than complete, by their deadline too
  uint64_t completed = 0;  // all tokens came
  uint64_t cut = 0;        // of a concurrency: ended by the end of the load
  uint64_t good = 0;       // completed within the objective
  uint64_t tokens = 0;
  uint64_t resumed = 0;         // completed after more than one attempt
  uint64_t local_prefills = 0;  // completed with a prompt computed on the decode worker
  std::vector<float> ttft_ms = {}, itl_ms = {}, tpot_ms = {}, e2e_ms = {}, refusal_ms = {};
  std::vector<float> send_lag_ms = {};            // how much later than intended it was sent
  std::map<std::string, uint64_t> failures = {};  // message -> how many; the first eight kinds
};

struct LoadReport {
  absl::Duration window;  // measured
  double cpu_share = 0;   // of the whole machine's CPU time, that the generator took
  std::vector<LoadSamples> classes;
};

// The value below which the share `p` of the samples lies (nearest rank); 0 without samples.
double Percentile(std::vector<float> samples, double p);

// {"window_s", "generator_cpu_share", "classes": {NAME: {"offered", "refused", "failed",
// "completed", "cut", "good", "offered_per_s", "completed_per_s", "goodput_per_s", "tokens_per_s",
// "resumed", "local_prefills", "ttft_ms": {"mean", "p50", "p90", "p99", "max", "samples"},
// "itl_ms", "tpot_ms", "e2e_ms", "refusal_ms", "send_lag_ms", "failures": {MESSAGE: n}}}}, on
// several lines.
std::string FormatJson(const LoadReport& report);
std::string FormatTable(const LoadReport& report);

}  // namespace baton
