#include "router/placement.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace baton {
namespace {

using Outcome = Placement::Outcome;

// Smaller is better.
auto PrefillLoad(const WorkerSnapshot& worker) {
  return std::make_tuple(worker.own_prompts, worker.queued_tokens, worker.reported_sequences,
                         worker.id);
}

// The reports are up to 250 ms old, what this router gave away since is not in them.
auto DecodeLoad(const WorkerSnapshot& worker, const WorkerNeeds& needs) {
  const uint64_t room = uint64_t{worker.free_blocks} * worker.block_size;
  const bool must_wait = room < uint64_t{needs.prompt_tokens} + 1;
  const uint32_t sequences = std::max(worker.own_sequences, worker.reported_sequences);
  return std::make_tuple(must_wait, sequences, UINT32_MAX - worker.free_blocks, worker.id);
}

// Indexes of the workers long enough for the request, best first.
template <typename Load>
std::vector<size_t> Ranked(absl::Span<const WorkerSnapshot> workers, const WorkerNeeds& needs,
                           PlacementPolicy policy, uint64_t turn, Load load) {
  std::vector<size_t> order;
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].max_model_len >= needs.max_total_tokens) order.push_back(i);
  }
  if (order.empty()) return order;
  if (policy == PlacementPolicy::kRoundRobin) {
    const auto first = static_cast<std::ptrdiff_t>(turn % order.size());
    std::rotate(order.begin(), order.begin() + first, order.end());
  } else {
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return load(workers[a]) < load(workers[b]); });
  }
  // Among equals as before.
  const auto wish = [&](size_t i) {
    const uint64_t id = workers[i].id;
    if (id == needs.prefer_decode) return 0;
    return std::count(needs.avoid.begin(), needs.avoid.end(), id) == 0 ? 1 : 2;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return wish(a) < wish(b); });
  return order;
}

bool HasRoom(const WorkerSnapshot& worker) { return worker.own_prompts < kMaxQueuedPrompts; }

}  // namespace

const char* PlacementPolicyName(PlacementPolicy policy) {
  return policy == PlacementPolicy::kRoundRobin ? "round_robin" : "least_loaded";
}

Placement Place(const WorkerNeeds& needs, absl::Span<const WorkerSnapshot> prefill,
                absl::Span<const WorkerSnapshot> decode, const PlacementOptions& options,
                uint64_t turn) {
  const auto prefill_order = Ranked(prefill, needs, options.policy, turn, PrefillLoad);
  const auto decode_order =
      Ranked(decode, needs, options.policy, turn,
             [&](const WorkerSnapshot& worker) { return DecodeLoad(worker, needs); });
  Placement result;
  if (!needs.decode && options.disaggregation != Disaggregation::kNever && !prefill_order.empty()) {
    for (size_t p : prefill_order) {
      if (HasRoom(prefill[p])) return {.outcome = Outcome::kPlaced, .prefill = p, .decode = {}};
    }
    return {.outcome = Outcome::kWait, .prefill = {}, .decode = {}};
  }
  for (size_t d : decode_order) {
    bool has_partner = false;
    if (options.disaggregation != Disaggregation::kNever) {
      for (size_t p : prefill_order) {
        if (prefill[p].identity != decode[d].identity) continue;
        has_partner = true;
        if (HasRoom(prefill[p])) return {.outcome = Outcome::kPlaced, .prefill = p, .decode = d};
      }
    }
    const bool local = options.disaggregation == Disaggregation::kNever ||
                       (options.disaggregation == Disaggregation::kAuto && !has_partner);
    if (local && HasRoom(decode[d])) {
      return {.outcome = Outcome::kPlaced, .prefill = {}, .decode = d};
    }
    if (local || has_partner) result.outcome = Outcome::kWait;
  }
  return result;
}

}  // namespace baton
