// Costs and loads for tests of plans, with round numbers.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "client/plan/planned_fleet.h"
#include "client/plan/step_costs.h"

namespace baton {

inline constexpr int64_t kMs = 1'000'000;  // nanoseconds

// Per row 0.1 ms, so 512 tokens take 51.2 ms; a decode step 2 ms and 1 ms a sequence. 10 layers,
// 1,000 bytes of KV a token, blocks of 16.
inline StepCosts RoundCosts(StepCosts::ChunkCosts chunks = {
                                .step_s = 0, .row_s = 1e-4, .key_s = 0}) {
  return StepCosts({.model = "round",
                    .device = "cpu",
                    .layers = 10,
                    .kv_bytes_per_token = 1000,
                    .block_size = 16,
                    .max_num_batched_tokens = 512},
                   chunks,
                   {{.batch = 1, .step_s = 3e-3, .context_token_s = 0},
                    {.batch = 11, .step_s = 13e-3, .context_token_s = 0}});
}

// A fleet whose prompts are always prefilled on prefill workers, in steps of up to 512 rows from
// the first on, over a network of 1 GB/s.
inline FleetOptions RoundFleet(int prefill_workers, int decode_workers) {
  const PlannedEngine::Options engine{.max_num_seqs = 64,
                                      .max_num_batched_tokens = 512,
                                      .max_step_duration = absl::InfiniteDuration(),
                                      .block_tokens = 16};
  return {.prefill_workers = prefill_workers,
          .decode_workers = decode_workers,
          .placement = {.disaggregation = Disaggregation::kAlways},
          .prefill = engine,
          .decode = engine,
          .prefill_kv_tokens = 1 << 20,
          .decode_kv_tokens = 1 << 20,
          .link_bytes_per_s = 1e9,
          .request_overhead_ns = kMs};
}

inline PlannedLoad LoadOf(std::vector<PlannedRequest> requests, int page_tokens = 16) {
  return {.requests = std::move(requests), .page_tokens = page_tokens};
}

}  // namespace baton
