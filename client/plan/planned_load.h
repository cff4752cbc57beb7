// The requests that a plan replays: when they come, how long they are, and what their prompts
// share.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "bench/serve/load_source.h"

namespace baton {

struct PlannedRequest {
  int64_t at_ns = 0;  // since the beginning
  int input_tokens = 0;
  int output_tokens = 0;
  // A name for each whole page of the trace that the prompt begins with: a hash of its id and all
  // ids before it, never 0.
  std::vector<uint64_t> pages{};
};

struct PlannedLoad {
  std::vector<PlannedRequest> requests;  // in the order of their times
  int page_tokens = 1;
};

// The requests that `baton bench serve` would send: of a trace's own times all, of a rate those of
// `duration`. An error names the field of the load or the trace. REQUIRES: load.open_loop().
absl::StatusOr<PlannedLoad> MakePlannedLoad(const LoadClass& load,
                                            const LoadSource::Options& options,
                                            absl::Duration duration);

}  // namespace baton
