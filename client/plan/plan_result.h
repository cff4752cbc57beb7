// The result of a load's replay on planned workers.
#pragma once

#include <cstdint>
#include <vector>

#include "client/plan/gap_histogram.h"

namespace baton {

// The workers of one role.
struct RoleUse {
  int workers = 0;
  double busy = 0;           // share of the time in which a worker computes, mean of the workers
  double most_busy = 0;      // the same share for the busiest worker
  double rows_per_step = 0;  // prefill: tokens of prompts; decode: sequences
  double kv_used = 0;       // share of the KV cache that sequences hold, mean over time and workers
  double most_kv_used = 0;  // the most of any worker at any time
  double link_busy = 0;     // share of the time in which its network is busy, mean of the workers
  uint64_t preemptions = 0;
};

struct PlanResult {
  uint64_t offered = 0;  // completed + refused, unless it was stopped
  uint64_t completed = 0;
  uint64_t refused = 0;         // had no worker in time, or fit none
  uint64_t good = 0;            // completed within the objective
  bool stopped = false;         // stopped early, since too many requests were not good
  int64_t span_ns = 0;          // from the first arrival to the last end
  uint64_t tokens = 0;          // generated
  uint64_t input_tokens = 0;    // prompt tokens of completed requests
  uint64_t cached_tokens = 0;   // prompt tokens found in the worker's prefix cache
  uint64_t sent_bytes = 0;      // KV bytes sent
  uint64_t local_prefills = 0;  // prompts that decode workers computed
  uint64_t events = 0;
  double mean_waiting = 0;    // requests that wait in the router, over the time
  uint64_t most_waiting = 0;  //
  // Times of completed requests in nanoseconds: `ttft`, `e2e` from arrival, `queue` until they had
  // workers, `prefill` from then to the end of the prompt's last step, `exposed` from there to
  // the commit, `tpot` as in `baton bench serve`.
  std::vector<int64_t> ttft_ns{}, queue_ns{}, prefill_ns{}, exposed_ns{}, tpot_ns{}, e2e_ns{};
  GapHistogram itl{};
  RoleUse prefill{}, decode{};

  double good_share() const {
    return offered == 0 ? 0 : static_cast<double>(good) / static_cast<double>(offered);
  }
};

}  // namespace baton
