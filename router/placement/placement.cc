#include "router/placement/placement.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "router/placement/spread.h"

namespace baton {
namespace {

using Outcome = Placement::Outcome;

// Estimate if nothing was measured yet.
constexpr double kGuessedTokensPerSecond = 1000;
constexpr double kGuessedBytesPerSecond = 1e9;
// What one more running sequence costs the others, in time that a new one waits for its first
// token. A sequence on its way counts more: its transfer and its first steps are still to come, and
// a worker that has just joined is filled by and by.
constexpr double kSecondsPerSequence = 0.1;
constexpr double kArrivingSequences = 4;
constexpr double kSequencesOfFullMemory = 4;
// Costs are estimates: within a twentieth they are equal.
constexpr double kNearlyEqual = 1.05;
// The pair and the next one failed too.
constexpr uint32_t kHandOffsBeforeLocal = 3;

struct Ranked {
  size_t index = 0;
  int tier = 0;           // whatever the cost
  double cost = 0;        // seconds
  uint32_t cached = 0;    // tokens
  uint32_t requests = 0;  // requests that the worker has
};

// The reports are up to 250 ms old, what this router gave and got back since is not in them.
uint32_t Sequences(const WorkerSnapshot& worker) {
  const int64_t now = int64_t{worker.reported_sequences} + worker.sequences_since;
  return static_cast<uint32_t>(std::max<int64_t>(worker.own_sequences, now));
}
double QueuedTokens(const WorkerSnapshot& worker) {
  const int64_t now = worker.queued_tokens + worker.prompt_tokens_since;
  return static_cast<double>(std::max<int64_t>(worker.own_prompt_tokens, now));
}

// One request's view of the workers.
class Chooser {
 public:
  Chooser(const WorkerNeeds& needs, const PlacementOptions& options, uint64_t turn,
          absl::Span<const WorkerSnapshot> prefill, absl::Span<const WorkerSnapshot> decode,
          LinkLookup link)
      : needs_(needs),
        options_(options),
        turn_(turn),
        prefill_(prefill),
        decode_(decode),
        link_(link) {
    for (const WorkerSnapshot& worker : prefill) {
      fastest_ = std::max(fastest_, worker.prefill_tokens_per_second);
    }
  }

  Placement Choose() const;

 private:
  enum Reluctance { kFine, kAvoided, kBadLink };
  struct Partner {
    std::optional<size_t> with_room;  // the best that takes a prompt
    std::optional<size_t> best;       // whether or not
    // How much speaks against with_room: kFine, kAvoided (it broke the request), kBadLink.
    int reluctance = kFine;
  };
  std::vector<Ranked> RankPrefill() const;
  std::vector<Ranked> RankDecode() const;
  // By tier and cost; among near-equals the better of two that `turn` draws comes first.
  void Sort(std::vector<Ranked>& ranked) const;
  Partner FindPartner(const WorkerSnapshot& decode, const std::vector<Ranked>& prefill,
                      bool last_resort) const;
  // A decode worker, and a prefill worker unless the prompt is prefilled there. `last_resort`:
  // links that the request has spent are taken too, once they have rested.
  Placement ChoosePair(const std::vector<Ranked>& prefill, bool last_resort) const;
  bool PrefersLocal(const WorkerSnapshot& prefill, const WorkerSnapshot& decode) const;

  bool allows_prefill_workers() const {
    return options_.disaggregation != Disaggregation::kNever && !prefill_.empty();
  }
  // tests/planted_bugs: router_opens_beside_others
  bool MayOpen(const WorkerSnapshot& worker) const { return !needs_.alone || HasNoPrompts(worker); }
  int Wish(const WorkerSnapshot& worker) const {
    if (worker.id == needs_.prefer_decode) return 0;
    // tests/planted_bugs: placement_avoids_nobody
    return std::count(needs_.avoid.begin(), needs_.avoid.end(), worker.id) == 0 ? 1 : 2;
  }
  uint32_t Cached(const WorkerSnapshot& worker) const {
    if (options_.policy != PlacementPolicy::kPrefixAware) return 0;
    // tests/planted_bugs: placement_ignores_prefixes
    return std::min(worker.cached_tokens, needs_.prompt_tokens);
  }
  uint32_t Uncached(const WorkerSnapshot& worker) const {
    return needs_.prompt_tokens - Cached(worker);
  }
  // What it would compute.
  uint32_t Uncomputed(const WorkerSnapshot& worker) const {
    return needs_.whole_prompt ? needs_.prompt_tokens : Uncached(worker);
  }
  // A decode worker has no memory for the prompt now.
  bool MustWait(const WorkerSnapshot& worker) const {
    const uint64_t room = TokensIn(worker, worker.free_blocks) + Cached(worker);
    return room < uint64_t{worker.tokens_since} + needs_.prompt_tokens + 1;
  }
  double Speed(const WorkerSnapshot& worker) const {
    if (worker.prefill_tokens_per_second > 0) return worker.prefill_tokens_per_second;
    return fastest_ > 0 ? fastest_ : kGuessedTokensPerSecond;
  }
  // Until it would have computed the prompt.
  double PrefillSeconds(const WorkerSnapshot& worker) const {
    return (QueuedTokens(worker) + Uncomputed(worker)) / Speed(worker);
  }

  const WorkerNeeds& needs_;
  const PlacementOptions& options_;
  const uint64_t turn_;
  const absl::Span<const WorkerSnapshot> prefill_;
  const absl::Span<const WorkerSnapshot> decode_;
  const LinkLookup link_;
  double fastest_ = 0;  // tokens/s of the fastest prefill worker
};

std::vector<Ranked> Chooser::RankPrefill() const {
  std::vector<Ranked> ranked;
  for (size_t i = 0; i < prefill_.size(); ++i) {
    const WorkerSnapshot& worker = prefill_[i];
    if (!Fits(worker, needs_)) continue;
    ranked.push_back({.index = i,
                      .tier = Wish(worker),
                      .cost = PrefillSeconds(worker),
                      .cached = Cached(worker),
                      .requests = worker.own_prompts + worker.reported_sequences});
  }
  Sort(ranked);
  return ranked;
}

std::vector<Ranked> Chooser::RankDecode() const {
  std::vector<Ranked> ranked;
  for (size_t i = 0; i < decode_.size(); ++i) {
    const WorkerSnapshot& worker = decode_[i];
    if (!Fits(worker, needs_)) continue;
    double sequences = Sequences(worker) + (kArrivingSequences - 1) * worker.own_arriving;
    if (worker.total_blocks > 0) {
      const double free =
          std::min(1.0, static_cast<double>(worker.free_blocks) / worker.total_blocks);
      sequences += kSequencesOfFullMemory * (1 - free);
    }
    double seconds = kSecondsPerSequence * sequences;
    if (allows_prefill_workers()) {
      seconds += static_cast<double>(Uncached(worker) * worker.kv_bytes_per_token) /
                 kGuessedBytesPerSecond;
    } else {
      seconds += PrefillSeconds(worker);
    }
    ranked.push_back({.index = i,
                      .tier = 2 * Wish(worker) + (MustWait(worker) ? 1 : 0),
                      .cost = seconds,
                      .cached = Cached(worker),
                      .requests = Sequences(worker)});
  }
  Sort(ranked);
  return ranked;
}

void Chooser::Sort(std::vector<Ranked>& ranked) const {
  if (options_.policy == PlacementPolicy::kRoundRobin) {
    // In the order of the candidates, whatever their load.
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const Ranked& a, const Ranked& b) { return a.tier < b.tier; });
    return;
  }
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::make_tuple(a.tier, a.cost, UINT32_MAX - a.cached, a.index) <
           std::make_tuple(b.tier, b.cost, UINT32_MAX - b.cached, b.index);
  });
  if (ranked.size() < 2) return;
  const Ranked& best = ranked.front();
  uint64_t equals = 1;
  while (equals < ranked.size() && ranked[equals].tier == best.tier &&
         ranked[equals].cached >= best.cached && ranked[equals].cost <= best.cost * kNearlyEqual) {
    ++equals;
  }
  if (equals < 2) return;
  const uint64_t first = Spread(turn_, 0) % equals;
  const uint64_t second = (first + 1 + Spread(turn_, 1) % (equals - 1)) % equals;
  const uint64_t chosen = ranked[second].requests < ranked[first].requests ? second : first;
  std::swap(ranked[0], ranked[chosen]);
}

Chooser::Partner Chooser::FindPartner(const WorkerSnapshot& decode,
                                      const std::vector<Ranked>& prefill, bool last_resort) const {
  Partner partner;
  const bool waits = MustWait(decode);
  double least = 0;
  // tests/planted_bugs: prefill_candidates
  for (const Ranked& candidate : prefill) {
    const WorkerSnapshot& worker = prefill_[candidate.index];
    if (worker.identity != decode.identity) continue;
    const LinkEstimate link = link_(worker.id, decode.id);
    if (link.impossible || (link.spent && (link.rests || !last_resort))) continue;
    if (!partner.best.has_value()) partner.best = candidate.index;
    if (waits ? !HasRoomForWaitingPrompt(worker) : !HasRoomForPrompt(worker)) continue;
    if (!MayOpen(worker)) continue;
    const int reluctance = link.bad ? kBadLink : Wish(worker) > 1 ? kAvoided : kFine;
    const double cost = candidate.cost + absl::ToDoubleSeconds(link.exposed);
    // The first of them was chosen among near-equals: another must be better by more than that.
    const bool better =
        !partner.with_room.has_value() || reluctance < partner.reluctance ||
        (reluctance == partner.reluctance && options_.policy == PlacementPolicy::kPrefixAware &&
         cost * kNearlyEqual < least);
    if (!better) continue;
    partner.with_room = candidate.index;
    partner.reluctance = reluctance;
    least = cost;
  }
  return partner;
}

bool Chooser::PrefersLocal(const WorkerSnapshot& prefill, const WorkerSnapshot& decode) const {
  const Disaggregation mode = options_.disaggregation;
  if (mode == Disaggregation::kNever) return true;
  if (mode == Disaggregation::kAlways) return false;
  const LinkEstimate link = link_(prefill.id, decode.id);
  if (needs_.failed_hand_offs >= kHandOffsBeforeLocal) return true;
  const uint32_t uncomputed = Uncomputed(decode);
  if (mode == Disaggregation::kByLength) return uncomputed < options_.local_below_tokens;
  if (prefill.prefill_tokens_per_second <= 0 || link.bytes_per_second <= 0) return false;
  // While it computes the prompt everybody there decodes the more slowly, and so would one who came
  // meanwhile.
  const double harm = (1.0 + Sequences(decode)) * uncomputed / Speed(decode);
  return PrefillSeconds(decode) + harm <
         PrefillSeconds(prefill) + absl::ToDoubleSeconds(link.exposed);
}

Placement Chooser::Choose() const {
  std::vector<Ranked> prefill;
  if (allows_prefill_workers()) prefill = RankPrefill();
  if (!needs_.decode && !prefill.empty()) {
    for (const Ranked& p : prefill) {
      if (HasRoomForPrompt(prefill_[p.index]) && MayOpen(prefill_[p.index])) {
        return {.outcome = Outcome::kPlaced, .prefill = p.index, .decode = {}};
      }
    }
    return {.outcome = Outcome::kWait, .prefill = {}, .decode = {}};
  }
  const Placement result = ChoosePair(prefill, /*last_resort=*/false);
  if (result.outcome != Outcome::kNoneIsReady || needs_.spent_links.empty()) return result;
  return ChoosePair(prefill, /*last_resort=*/true);
}

Placement Chooser::ChoosePair(const std::vector<Ranked>& prefill, bool last_resort) const {
  Placement result;
  int reluctance = kBadLink + 1;  // reluctance towards the result
  for (const Ranked& d : RankDecode()) {
    const WorkerSnapshot& worker = decode_[d.index];
    const Partner partner = FindPartner(worker, prefill, last_resort);
    const bool local =
        partner.best.has_value()
            ? PrefersLocal(prefill_[partner.with_room.value_or(*partner.best)], worker)
            : options_.disaggregation != Disaggregation::kAlways;
    if (!local && !partner.best.has_value()) continue;
    if (result.outcome == Outcome::kNoneIsReady) result.outcome = Outcome::kWait;
    if (!Takes(worker) || !MayOpen(worker)) continue;
    if (local && HasRoomForPrompt(worker) && result.outcome != Outcome::kPlaced) {
      return {.outcome = Outcome::kPlaced, .prefill = {}, .decode = d.index};
    }
    if (!partner.with_room.has_value()) continue;
    if (partner.reluctance >= reluctance) continue;
    reluctance = partner.reluctance;
    result = {.outcome = Outcome::kPlaced, .prefill = partner.with_room, .decode = d.index};
    if (partner.reluctance == kFine) break;
    const bool may_be_local = options_.disaggregation != Disaggregation::kAlways;
    if (partner.reluctance == kBadLink && may_be_local && HasRoomForPrompt(worker)) {
      result.prefill.reset();
    }
  }
  return result;
}

}  // namespace

const char* PlacementPolicyName(PlacementPolicy policy) {
  switch (policy) {
    case PlacementPolicy::kRoundRobin:
      return "round_robin";
    case PlacementPolicy::kLeastLoaded:
      return "least_loaded";
    case PlacementPolicy::kPrefixAware:
      return "prefix_aware";
  }
  return "";
}

Placement Place(const WorkerNeeds& needs, absl::Span<const WorkerSnapshot> prefill,
                absl::Span<const WorkerSnapshot> decode, const PlacementOptions& options,
                uint64_t turn, LinkLookup link) {
  return Chooser(needs, options, turn, prefill, decode, link).Choose();
}

}  // namespace baton
