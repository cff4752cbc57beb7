#include "router/dispatch/fair_queue.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"

namespace baton {

void FairQueue::Push(Entry entry) {
  const auto [it, added] = entries_.emplace(entry.number, std::move(entry));
  BATON_CHECK(added, "a request waits twice");
  const Entry& e = it->second;
  if (e.resumed) {
    resumed_.emplace(e.priority, e.number);
    return;
  }
  Level& level = levels_[e.priority];
  const auto found = level.tenants.try_emplace(e.tenant).first;
  Tenant& tenant = found->second;
  tenant.name = &found->first;
  if (tenant.waiting.empty()) {
    level.idle.erase({tenant.tag, *tenant.name});
    tenant.tag = std::max(tenant.tag, level.virtual_time);
  } else {
    level.active.erase(PositionOf(tenant));
  }
  tenant.waiting.insert(e.number);
  Place(level, tenant);
}

bool FairQueue::Remove(uint64_t number) {
  const auto it = entries_.find(number);
  if (it == entries_.end()) return false;
  const Entry& entry = it->second;
  if (entry.resumed) {
    resumed_.erase({entry.priority, number});
  } else {
    RemoveFrom(levels_.at(entry.priority), entry, /*served=*/false);
  }
  entries_.erase(it);
  return true;
}

const FairQueue::Entry* FairQueue::Front() const {
  if (!resumed_.empty()) return &entries_.at(resumed_.begin()->second);
  if (levels_.empty()) return nullptr;
  return &entries_.at(levels_.begin()->second.active.begin()->first.second);
}

void FairQueue::TakeFront() {
  const Entry* front = Front();
  BATON_CHECK(front != nullptr, "nobody waits");
  const uint64_t number = front->number;
  if (front->resumed) {
    resumed_.erase(resumed_.begin());
  } else {
    RemoveFrom(levels_.begin()->second, *front, /*served=*/true);
  }
  entries_.erase(number);
}

void FairQueue::RemoveFrom(Level& level, const Entry& entry, bool served) {
  Tenant& tenant = level.tenants.at(entry.tenant);
  const auto sharing = static_cast<double>(level.active.size());
  level.active.erase(PositionOf(tenant));
  tenant.waiting.erase(entry.number);
  if (served) {
    const auto tokens = static_cast<double>(entry.tokens);
    level.virtual_time = std::max(level.virtual_time, tenant.tag) + tokens / sharing;
    tenant.tag += tokens;
  }
  Place(level, tenant);
  ForgetIdle(level);
  if (level.active.empty()) levels_.erase(entry.priority);
}

void FairQueue::Place(Level& level, Tenant& tenant) {
  if (tenant.waiting.empty()) {
    level.idle.emplace(std::make_pair(tenant.tag, *tenant.name), &tenant);
  } else {
    level.active.emplace(PositionOf(tenant), &tenant);
  }
}

// Who owes nothing is as good as unknown.
void FairQueue::ForgetIdle(Level& level) {
  while (!level.idle.empty()) {
    const auto least = level.idle.begin();
    if (least->first.first > level.virtual_time && level.idle.size() <= max_idle_tenants_) return;
    const std::string name = least->first.second;
    level.idle.erase(least);
    level.tenants.erase(name);
  }
}

void FairQueue::ForEachInOrder(absl::FunctionRef<bool(const Entry&)> visit) const {
  for (const auto& [priority, number] : resumed_) visit(entries_.at(number));
  struct Turn {
    Position position;
    const Tenant* tenant;
    std::set<uint64_t>::const_iterator next;
    bool operator>(const Turn& other) const { return position > other.position; }
  };
  for (const auto& [priority, level] : levels_) {
    std::vector<Turn> turns;  // a heap, the next one first
    for (const auto& [position, tenant] : level.active) {
      turns.push_back({position, tenant, tenant->waiting.begin()});
    }
    while (!turns.empty()) {
      std::pop_heap(turns.begin(), turns.end(), std::greater<>());
      Turn& turn = turns.back();
      const Entry& entry = entries_.at(*turn.next);
      if (visit(entry)) turn.position.first += static_cast<double>(entry.tokens);
      if (++turn.next == turn.tenant->waiting.end()) {
        turns.pop_back();
        continue;
      }
      turn.position.second = *turn.next;
      std::push_heap(turns.begin(), turns.end(), std::greater<>());
    }
  }
}

size_t FairQueue::idle_tenants() const {
  size_t idle = 0;
  for (const auto& [priority, level] : levels_) idle += level.idle.size();
  return idle;
}

}  // namespace baton
