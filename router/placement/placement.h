// Which workers a request goes to: a pure function of what is known about the candidates.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

#include "common/base/kv_layer_groups.h"
#include "router/placement/link_estimates.h"
#include "router/request/events.h"

namespace baton {

// kRoundRobin: in the order of the candidates. kLeastLoaded: the shortest queue, the fewest
// sequences. kPrefixAware: as that, and what a worker holds of the prompt counts as done.
enum class PlacementPolicy { kRoundRobin, kLeastLoaded, kPrefixAware };
const char* PlacementPolicyName(PlacementPolicy policy);

// Where prompts are prefilled: kAlways on prefill workers, kNever (on the decode worker). Else on
// prefill workers, but on the decode worker if none is ready or hand-offs keep failing, and
// kAuto: if that is estimated to be better for all; kByLength: where little is to be computed.
enum class Disaggregation { kAuto, kAlways, kNever, kByLength };

// A ready worker, whose tokenizer is the router's.
struct WorkerSnapshot {
  uint64_t id = 0;
  std::string identity;        // only workers of one identity are paired
  uint32_t max_model_len = 0;  // tokens
  uint32_t block_size = 0;     // tokens
  uint32_t total_blocks = 0;   // 0: unknown
  KvLayerGroups groups = {};   // groups of layers that share a block for the same tokens
  uint64_t kv_bytes_per_token = 0;
  // What the worker reported, up to 250 ms ago:
  uint32_t free_blocks = 0;
  uint32_t queued_tokens = 0;       // to be prefilled
  uint32_t reported_sequences = 0;  // waiting and running
  // What this router gave it and has not ended:
  uint32_t own_sequences = 0;
  uint32_t own_arriving = 0;       // sequences whose prompts are computed elsewhere
  uint32_t own_prompts = 0;        // sequences whose prompts it has not computed yet
  uint32_t own_postponed = 0;      // prompts whose decode workers have no memory so far
  uint32_t own_prompt_tokens = 0;  // tokens of own_prompts that it does not hold
  uint32_t own_alone = 0;          // attempts that open alone, with prompts still to be computed
  // What this router gave it since that report, less what has ended since:
  int32_t sequences_since = 0;
  int64_t prompt_tokens_since = 0;       // to be prefilled there
  uint32_t tokens_since = 0;             // only given: they take its memory
  double prefill_tokens_per_second = 0;  // measured; 0: not yet
  bool takes_requests = true;            // false: it failed too often lately
  uint32_t cached_tokens = 0;            // tokens of this request's prompt that it holds
};

// Returns the tokens that fit into `blocks` of the worker's blocks.
inline uint64_t TokensIn(const WorkerSnapshot& worker, uint32_t blocks) {
  if (worker.groups.count() == 1) return uint64_t{blocks} * worker.block_size;
  return static_cast<uint64_t>(worker.groups.TokensIn(blocks, static_cast<int>(worker.block_size)));
}

// The worker is long enough for the request, and has the model that began its answer, if any did.
inline bool Fits(const WorkerSnapshot& worker, const WorkerNeeds& needs) {
  if (!needs.model.empty() && worker.identity != needs.model) return false;
  const uint64_t stored = TokensIn(worker, worker.total_blocks);
  return worker.max_model_len >= needs.max_total_tokens &&
         (worker.total_blocks == 0 || stored >= needs.prompt_tokens);
}

// The worker takes more from this router: it works, and nothing opens alone on it.
inline bool Takes(const WorkerSnapshot& worker) {
  // tests/planted_bugs: router_places_beside_who_opens_alone
  return worker.takes_requests && worker.own_alone == 0;
}
// An attempt may open alone on the worker: no prompt of this router is to be computed for it.
inline bool HasNoPrompts(const WorkerSnapshot& worker) {
  return worker.own_prompts == 0 && worker.own_arriving == 0;
}
// A worker with this many queued prompts gets no more from this router.
inline constexpr uint32_t kMaxQueuedPrompts = 2;
inline bool HasRoomForPrompt(const WorkerSnapshot& worker) {
  // tests/planted_bugs: placement_queues_without_bound
  return Takes(worker) && worker.own_prompts - worker.own_postponed < kMaxQueuedPrompts;
}
// For one whose decode worker has no memory either: it would only join those that wait for theirs,
// and who waits in the router is served in its order.
inline bool HasRoomForWaitingPrompt(const WorkerSnapshot& worker) {
  // tests/planted_bugs: placement_adds_to_those_that_wait
  return Takes(worker) && worker.own_prompts < kMaxQueuedPrompts;
}

struct PlacementOptions {
  PlacementPolicy policy = PlacementPolicy::kPrefixAware;
  Disaggregation disaggregation = Disaggregation::kAuto;
  uint32_t local_below_tokens = 0;  // kByLength: fewer to compute are computed on the decode worker
};

struct Placement {
  enum class Outcome {
    kPlaced,
    kWait,         // all that could do it have enough queued, or failed too often lately
    kNoneIsReady,  // none could do it, however long it waits
  };
  Outcome outcome = Outcome::kNoneIsReady;
  // Indexes. Without a prefill worker the prompt is prefilled on the decode worker; without a
  // decode worker one token remains, which the prefill worker samples.
  std::optional<size_t> prefill;
  std::optional<size_t> decode;
};

// The link of a pair, by the ids of its prefill and its decode worker.
using LinkLookup = absl::FunctionRef<LinkEstimate(uint64_t, uint64_t)>;
inline LinkEstimate UnknownLink(uint64_t, uint64_t) { return {}; }

// `turn` grows by one for each request placed, and chooses between near-equals. Deterministic:
// equal inputs give equal placements.
Placement Place(const WorkerNeeds& needs, absl::Span<const WorkerSnapshot> prefill,
                absl::Span<const WorkerSnapshot> decode, const PlacementOptions& options,
                uint64_t turn, LinkLookup link = UnknownLink);
// Place, or what watches it.
using PlaceFunction = std::function<Placement(const WorkerNeeds&, absl::Span<const WorkerSnapshot>,
                                              absl::Span<const WorkerSnapshot>,
                                              const PlacementOptions&, uint64_t, LinkLookup)>;

}  // namespace baton
