#include "router/placement/ready_workers.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "common/base/check.h"
#include "router/placement/spread.h"

namespace baton {
namespace {

constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

bool IsAmong(const std::vector<WorkerSnapshot>& workers, uint64_t id) {
  return std::any_of(workers.begin(), workers.end(),
                     [id](const WorkerSnapshot& worker) { return worker.id == id; });
}

}  // namespace

void ReadyWorkers::Add(Role role, const WorkerSnapshot& worker) {
  Side& side = groups_[worker.identity].sides[static_cast<size_t>(role)];
  const auto [added, is_new] =
      entries_.try_emplace(worker.id, Entry{.worker = &worker, .role = role, .side = &side});
  BATON_CHECK(is_new, "a worker is ready twice");
  std::fill_n(added->second.places, kLists, kNowhere);
  ++side.lengths[worker.max_model_len];
  PutInto(kReady, added->second, true);
  Changed(worker.id);
}

void ReadyWorkers::Remove(uint64_t id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  for (const ListName name : {kReady, kTakes, kWithRoom}) PutInto(name, entry, false);
  const auto length = entry.side->lengths.find(entry.worker->max_model_len);
  if (--length->second == 0) entry.side->lengths.erase(length);
  const auto group = groups_.find(entry.worker->identity);
  if (group->second.sides[0].lengths.empty() && group->second.sides[1].lengths.empty()) {
    groups_.erase(group);
  }
  entries_.erase(found);
}

void ReadyWorkers::Changed(uint64_t id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  PutInto(kTakes, found->second, Takes(*found->second.worker));
  PutInto(kWithRoom, found->second, HasRoomForPrompt(*found->second.worker));
}

void ReadyWorkers::PutInto(ListName name, Entry& entry, bool in) {
  size_t& place = entry.places[name];
  if (in == (place != kNowhere)) return;
  List& list = entry.side->lists[name];
  if (in) {
    place = list.size();
    list.push_back(entry.worker);
    return;
  }
  const WorkerSnapshot* last = list.back();
  list[place] = last;
  list.pop_back();
  entries_.find(last->id)->second.places[name] = place;
  place = kNowhere;
}

ReadyWorkers::Candidates ReadyWorkers::Choose(const WorkerNeeds& needs, absl::Span<const Held> held,
                                              const PlacementOptions& options,
                                              uint64_t turn) const {
  Candidates candidates;
  for (const auto& [identity, group] : groups_) {
    const Side& prefill = group.sides[static_cast<size_t>(Role::kPrefill)];
    const Side& decode = group.sides[static_cast<size_t>(Role::kDecode)];
    const bool local = options.disaggregation == Disaggregation::kNever || prefill.lengths.empty();
    Draw(prefill, kWithRoom, needs, options, turn, candidates.prefill);
    Draw(decode, local ? kWithRoom : kTakes, needs, options, turn, candidates.decode);
  }
  if (options.policy == PlacementPolicy::kRoundRobin) return candidates;
  // Those that hold most; of many equals some that `turn` draws.
  std::vector<Held> most(held.begin(), held.end());
  const auto before = [turn](const Held& a, const Held& b) {
    if (a.tokens != b.tokens) return a.tokens > b.tokens;
    return Spread(turn, a.worker_id) < Spread(turn, b.worker_id);
  };
  size_t named[2] = {};
  std::sort(most.begin(), most.end(), before);
  for (const Held& one : most) {
    const auto found = entries_.find(one.worker_id);
    if (found == entries_.end()) continue;
    if (named[static_cast<size_t>(found->second.role)]++ >= kCandidates) continue;
    AddNamed(one.worker_id, one.tokens, needs, candidates);
  }
  if (needs.prefer_decode != 0) AddNamed(needs.prefer_decode, 0, needs, candidates);
  return candidates;
}

void ReadyWorkers::Draw(const Side& side, ListName name, const WorkerNeeds& needs,
                        const PlacementOptions& options, uint64_t turn,
                        std::vector<WorkerSnapshot>& candidates) const {
  if (side.longest() < needs.max_total_tokens) return;
  const size_t before = candidates.size();
  const auto take = [&](const WorkerSnapshot& worker) {
    if (!Fits(worker, needs)) return;
    if (!IsAmong(candidates, worker.id)) candidates.push_back(worker);
  };
  for (const List& list : {std::cref(side.lists[name]), std::cref(side.lists[kReady])}) {
    if (list.empty()) continue;
    const bool in_turn = options.policy == PlacementPolicy::kRoundRobin;
    const size_t count = std::min(list.size(), kCandidates);
    for (size_t i = 0; i < count; ++i) {
      const bool drawn = !in_turn && list.size() > kCandidates;
      take(*list[(drawn ? Spread(turn, i + 2) : in_turn ? turn + i : i) % list.size()]);
    }
    // None of them has enough room, but another worker has.
    for (size_t i = 0; candidates.size() == before && i < list.size(); ++i) take(*list[i]);
    if (candidates.size() > before) return;
  }
}

void ReadyWorkers::AddNamed(uint64_t id, uint32_t cached_tokens, const WorkerNeeds& needs,
                            Candidates& candidates) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const Entry& entry = found->second;
  if (!Fits(*entry.worker, needs)) return;
  std::vector<WorkerSnapshot>& list =
      entry.role == Role::kPrefill ? candidates.prefill : candidates.decode;
  auto candidate = std::find_if(list.begin(), list.end(),
                                [id](const WorkerSnapshot& worker) { return worker.id == id; });
  if (candidate == list.end()) candidate = list.insert(list.end(), *entry.worker);
  // A hit is of whole blocks and never covers the last token.
  const uint32_t block = std::max(entry.worker->block_size, 1u);
  const uint32_t most = std::max(needs.prompt_tokens, 1u) - 1;
  cached_tokens = std::min(cached_tokens, most);
  candidate->cached_tokens = std::max(candidate->cached_tokens, cached_tokens / block * block);
}

bool ReadyWorkers::has_room() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& group) {
    return !group.second.sides[0].lists[kWithRoom].empty() ||
           !group.second.sides[1].lists[kWithRoom].empty();
  });
}

uint32_t ReadyWorkers::longest_of_pairs() const {
  uint32_t longest = 0;
  for (const auto& [identity, group] : groups_) {
    longest = std::max(longest, std::min(group.sides[0].longest(), group.sides[1].longest()));
  }
  return longest;
}

uint32_t ReadyWorkers::longest_of_decode() const {
  uint32_t longest = 0;
  for (const auto& [identity, group] : groups_) {
    longest = std::max(longest, group.sides[1].longest());
  }
  return longest;
}

}  // namespace baton
