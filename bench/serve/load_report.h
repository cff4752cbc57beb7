// The results of a load: samples of each class, and their reports as JSON and as tables.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

// The limits that a request must keep to count as good. Infinite: no limit.
struct LoadObjective {
  absl::Duration ttft = absl::InfiniteDuration();  // time to first token
  absl::Duration itl = absl::InfiniteDuration();   // each gap between two messages with tokens
  absl::Duration tpot = absl::InfiniteDuration();  // mean time per output token after the first
  absl::Duration e2e = absl::InfiniteDuration();   // time to the end of the request
};
// Parses an objective such as "ttft=500ms,itl=100ms". INVALID_ARGUMENT names the field.
absl::StatusOr<LoadObjective> ParseLoadObjective(const std::string& text);

// The samples of one class. A request counts if it was due to be sent inside the measured window; a
// token or a gap counts if it came inside it. TTFT, end and refusal are measured from the time at
// which a request was due to be sent, which may be earlier than when it was.
struct LoadSamples {
  std::string name;
  uint64_t offered = 0;    // requests due: refused + failed + completed + cut
  uint64_t refused = 0;    // requests that ended with RESOURCE_EXHAUSTED before the first token
  uint64_t failed = 0;     // requests that ended incomplete otherwise, by their deadline too
  uint64_t completed = 0;  // requests whose tokens all came
  uint64_t cut = 0;        // streams of a concurrency that the end of the load ended
  uint64_t good = 0;       // requests completed within the objective
  uint64_t tokens = 0;
  uint64_t resumed = 0;         // requests completed after more than one attempt
  uint64_t local_prefills = 0;  // requests completed whose prompt the decode worker computed
  std::vector<float> ttft_ms = {}, itl_ms = {}, tpot_ms = {}, e2e_ms = {}, refusal_ms = {};
  std::vector<float> send_lag_ms = {};            // from when a request was due until it was sent
  std::map<std::string, uint64_t> failures = {};  // message -> count, for the first eight messages
};

struct LoadReport {
  absl::Duration window;  // length of the measured window
  double cpu_share = 0;   // share of the machine's CPU time that the load generator took
  std::vector<LoadSamples> classes;
};

// The value that the share `p` of the samples does not exceed (nearest rank); 0 without samples.
double Percentile(std::vector<float> samples, double p);

// One JSON object on several lines: "window_s", "generator_cpu_share", and "classes", which maps
// the name of each class to an object with
// - counts: "offered", "refused", "failed", "completed", "cut", "good", "resumed" and
//   "local_prefills";
// - rates: "offered_per_s", "completed_per_s", "goodput_per_s", "tokens_per_s";
// - times: "ttft_ms", "itl_ms", "tpot_ms", "e2e_ms", "refusal_ms" and "send_lag_ms", each an object
//   with "mean", "p50", "p90", "p99", "max", "samples";
// - "failures", which maps each message to its count.
std::string FormatJson(const LoadReport& report);
std::string FormatTable(const LoadReport& report);

}  // namespace baton
