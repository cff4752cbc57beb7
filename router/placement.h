// Which workers a request goes to: a pure function of what is known about them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"

#include "router/request_events.h"

namespace baton {

enum class PlacementPolicy { kRoundRobin, kLeastLoaded };
const char* PlacementPolicyName(PlacementPolicy policy);

// Where prompts are prefilled: kAlways on prefill workers, kNever (on the decode worker), kAuto on
// prefill workers while one is ready.
enum class Disaggregation { kAuto, kAlways, kNever };

// A ready worker, whose tokenizer is the router's.
struct WorkerSnapshot {
  uint64_t id = 0;
  std::string identity;  // only workers of one identity are paired
  uint32_t max_model_len = 0;
  uint32_t block_size = 0;  // tokens
  uint32_t free_blocks = 0;
  uint32_t queued_tokens = 0;       // as it reports
  uint32_t reported_sequences = 0;  // waiting and running, as it reports
  uint32_t own_sequences = 0;       // given to it by this router and not ended
  uint32_t own_prompts = 0;         // of those, with a prompt that is not computed yet
};

// A worker that has so many prompts before it takes no more from this router.
inline constexpr uint32_t kMaxQueuedPrompts = 2;

struct PlacementOptions {
  PlacementPolicy policy = PlacementPolicy::kLeastLoaded;
  Disaggregation disaggregation = Disaggregation::kAuto;
};

struct Placement {
  enum class Outcome {
    kPlaced,
    kWait,         // all that could do it have enough queued
    kNoneIsReady,  // none could do it, however long it waits
  };
  Outcome outcome = Outcome::kNoneIsReady;
  // Indexes. Without a prefill worker the prompt is prefilled on the decode worker; without a
  // decode worker one token remains, which the prefill worker samples.
  std::optional<size_t> prefill;
  std::optional<size_t> decode;
};

// `turn` grows by one for each request placed. Deterministic: equal inputs give equal placements.
Placement Place(const WorkerNeeds& needs, absl::Span<const WorkerSnapshot> prefill,
                absl::Span<const WorkerSnapshot> decode, const PlacementOptions& options,
                uint64_t turn);

}  // namespace baton
