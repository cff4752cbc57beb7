#include "router/dispatch/fair_queue.h"

#include "common/base/check.h"

namespace baton {

void FairQueue::Push(Entry entry) {
  const auto [it, added] = entries_.emplace(entry.number, std::move(entry));
  BATON_CHECK(added, "a request waits twice");
  const Entry& e = it->second;
  if (e.resumed) {
    resumed_.emplace(e.priority, e.number);
  } else {
    levels_.try_emplace(e.priority, max_idle_tenants_).first->second.Push(e);
  }
}

bool FairQueue::Remove(uint64_t number) {
  const auto it = entries_.find(number);
  if (it == entries_.end()) return false;
  const Entry& entry = it->second;
  if (entry.resumed) {
    resumed_.erase({entry.priority, number});
  } else {
    RemoveFromLevel(entry, /*served=*/false);
  }
  entries_.erase(it);
  return true;
}

const FairQueue::Entry* FairQueue::Front() const {
  if (!resumed_.empty()) return &entries_.at(resumed_.begin()->second);
  if (levels_.empty()) return nullptr;
  return &entries_.at(levels_.begin()->second.first());
}

void FairQueue::TakeFront() {
  const Entry* front = Front();
  BATON_CHECK(front != nullptr, "the queue must have an entry to take");
  const uint64_t number = front->number;
  if (front->resumed) {
    resumed_.erase(resumed_.begin());
  } else {
    RemoveFromLevel(*front, /*served=*/true);
  }
  entries_.erase(number);
}

void FairQueue::RemoveFromLevel(const Entry& entry, bool served) {
  const auto level = levels_.find(entry.priority);
  level->second.Remove(entry, served);
  if (level->second.empty()) levels_.erase(level);
}

void FairQueue::ForEachInOrder(absl::FunctionRef<bool(const Entry&)> visit) const {
  for (const auto& [priority, number] : resumed_) visit(entries_.at(number));
  for (const auto& [priority, tenants] : levels_) {
    for (Tenants::Walk walk(tenants); !walk.done();) {
      const Entry& entry = entries_.at(walk.number());
      walk.Next(visit(entry) ? static_cast<double>(entry.tokens) : 0);
    }
  }
}

size_t FairQueue::idle_tenants() const {
  size_t idle = 0;
  for (const auto& [priority, tenants] : levels_) idle += tenants.idle_members();
  return idle;
}

}  // namespace baton
