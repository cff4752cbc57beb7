// The limits that a request must keep to count as good.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "bench/serve/target/load_record.h"

namespace baton {

// What a limit is set on. All count from when a request was due.
enum class LimitedTime {
  kTtft,  // time to the first token
  kItl,   // gaps between messages with tokens, their percentile `percent`
  kTpot,  // mean time per output token after the first
  kE2e,   // time to the end of the request
};

struct LoadLimit {
  std::string name;  // as it was given: "ttft", "itl", "itl_p95", "tpot", "e2e"
  LimitedTime time = LimitedTime::kTtft;
  int percent = 100;  // percentile of the request's own gaps; 100: each gap
  int64_t most_ns = 0;
};

using LoadObjective = std::vector<LoadLimit>;

// Parses an objective such as "ttft=500ms,itl_p95=100ms"; percentiles are p1 to p99.
// INVALID_ARGUMENT names the field.
absl::StatusOr<LoadObjective> ParseLoadObjective(const std::string& text);

// Time from the first message with tokens to the last, over all tokens but one, rounded to the
// nearest nanosecond (half up); 0 for fewer than two messages.
int64_t TpotNanoseconds(const LoadRecord& record);

// Whether the completed request keeps all limits. REQUIRES: it is completed and has a token.
bool Keeps(const LoadRecord& record, const LoadObjective& objective);

}  // namespace baton
