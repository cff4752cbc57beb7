#include "client/plan/planned_router.h"

#include <algorithm>

#include "router/placement/spread.h"

namespace baton {
namespace {

constexpr size_t kMostHeld = 64;
// As router/fleet/worker_reports.cc measures the speed of prefill.
constexpr double kWeightOfNewSpeed = 0.2;
constexpr uint32_t kLeastMeasuredTokens = 64;

}  // namespace

PlannedRouter::PlannedRouter(const PlacementOptions& options, int page_tokens,
                             const PageHolders& holders)
    : options_(options), page_tokens_(page_tokens), holders_(holders) {}

void PlannedRouter::Add(ReadyWorkers::Role role, const WorkerSnapshot& worker) {
  WorkerSnapshot& seen = seen_.emplace_back(worker);
  seen.id = seen_.size();
  roles_.push_back(role);
  listed_.push_back(0);
  ready_.Add(role, seen);
}

void PlannedRouter::SetFreeBlocks(uint32_t worker, int64_t blocks) {
  Seen(worker).free_blocks = static_cast<uint32_t>(std::max<int64_t>(blocks, 0));
}

Placement::Outcome PlannedRouter::Place(const PlannedRequest& request, PlannedLease& lease) {
  const auto prompt = static_cast<uint32_t>(request.input_tokens);
  const WorkerNeeds needs{
      .prompt_tokens = prompt,
      .max_total_tokens = prompt + static_cast<uint32_t>(request.output_tokens)};
  const std::vector<ReadyWorkers::Held> held = options_.policy == PlacementPolicy::kRoundRobin
                                                   ? std::vector<ReadyWorkers::Held>()
                                                   : Held(request.pages);
  const ReadyWorkers::Candidates candidates = ready_.Choose(needs, held, options_, turn_);
  const Placement placement =
      baton::Place(needs, candidates.prefill, candidates.decode, options_, turn_,
                   [&](uint64_t p, uint64_t d) { return links_.Get(p, d, absl::UnixEpoch()); });
  if (placement.outcome != Placement::Outcome::kPlaced) return placement.outcome;
  ++turn_;
  const WorkerSnapshot& decode = candidates.decode[*placement.decode];
  const WorkerSnapshot& computes =
      placement.prefill.has_value() ? candidates.prefill[*placement.prefill] : decode;
  lease = {.decode = static_cast<uint32_t>(decode.id - 1),
           .prompt_tokens = prompt,
           .computed_tokens = prompt - computes.cached_tokens,
           .prompt_waits = true};
  if (placement.prefill.has_value()) lease.prefill = static_cast<uint32_t>(computes.id - 1);
  WorkerSnapshot& prompt_worker = SeenOf(computes.id);
  ++prompt_worker.own_prompts;
  prompt_worker.own_prompt_tokens += lease.computed_tokens;
  WorkerSnapshot& decodes = Seen(lease.decode);
  ++decodes.own_sequences;
  decodes.tokens_since += prompt;
  if (lease.prefill != kNoWorker) ++decodes.own_arriving;
  ready_.Changed(computes.id);
  return placement.outcome;
}

void PlannedRouter::Accepted(PlannedLease& lease) {
  if (lease.accepted) return;
  lease.accepted = true;
  Seen(lease.decode).tokens_since -= lease.prompt_tokens;
  if (!lease.postponed) return;
  lease.postponed = false;
  --Seen(lease.prefill).own_postponed;
  ready_.Changed(Seen(lease.prefill).id);
}

void PlannedRouter::Postponed(PlannedLease& lease) {
  if (lease.prefill == kNoWorker || lease.accepted || lease.postponed) return;
  lease.postponed = true;
  ++Seen(lease.prefill).own_postponed;
  ready_.Changed(Seen(lease.prefill).id);
}

void PlannedRouter::Computed(PlannedLease& lease, uint32_t cached_tokens, absl::Duration compute) {
  if (!lease.prompt_waits) return;
  lease.prompt_waits = false;
  WorkerSnapshot& seen = Seen(lease.prefill != kNoWorker ? lease.prefill : lease.decode);
  --seen.own_prompts;
  seen.own_prompt_tokens -= lease.computed_tokens;
  if (lease.prefill != kNoWorker) --Seen(lease.decode).own_arriving;
  const uint32_t tokens = lease.prompt_tokens - std::min(lease.prompt_tokens, cached_tokens);
  if (tokens >= kLeastMeasuredTokens && compute > absl::ZeroDuration()) {
    double& rate = seen.prefill_tokens_per_second;
    const double now = tokens / absl::ToDoubleSeconds(compute);
    rate = rate == 0 ? now : rate + kWeightOfNewSpeed * (now - rate);
  }
  ready_.Changed(seen.id);
}

void PlannedRouter::HandedOff(const PlannedLease& lease, uint64_t bytes, absl::Duration transfer,
                              absl::Duration exposed) {
  links_.Succeeded(Seen(lease.prefill).id, Seen(lease.decode).id, bytes, transfer, exposed);
}

void PlannedRouter::Ended(PlannedLease& lease) {
  --Seen(lease.decode).own_sequences;
  lease.decode = kNoWorker;
}

// Who holds a page holds those before it too, so the holders of the longest prefix come first, and
// enough of both roles are found behind few pages.
std::vector<ReadyWorkers::Held> PlannedRouter::Held(absl::Span<const uint64_t> pages) {
  std::vector<ReadyWorkers::Held> held;
  size_t depth = 0, named[2] = {};
  while (depth < pages.size() && !holders_.Of(pages[depth]).empty()) ++depth;
  ++lists_;
  const auto enough = [&] {
    return held.size() >= kMostHeld || std::min(named[0], named[1]) >= ReadyWorkers::kCandidates;
  };
  for (; depth > 0 && !enough(); --depth) {
    const absl::Span<const uint32_t> workers = holders_.Of(pages[depth - 1]);
    const size_t begin = Spread(turn_, depth) % workers.size();
    for (size_t i = 0; i < workers.size() && held.size() < kMostHeld; ++i) {
      const uint32_t worker = workers[(begin + i) % workers.size()];
      if (listed_[worker] == lists_) continue;
      listed_[worker] = lists_;
      ++named[static_cast<size_t>(roles_[worker])];
      held.push_back({.worker_id = Seen(worker).id,
                      .tokens = static_cast<uint32_t>(depth * static_cast<size_t>(page_tokens_))});
    }
  }
  return held;
}

}  // namespace baton
