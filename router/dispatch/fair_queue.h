// The order in which waiting requests get their workers.
//
// First those that were served before, whose workers broke: their clients have part of an answer.
// Then by priority, the lower number first. Among the requests of one priority tenants share what
// leaves the queue, in tokens, and so do the users of a tenant what the tenant gets
// (router/dispatch/fair_share.h). A user's own requests go in the order of their arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"

#include "router/dispatch/fair_share.h"

namespace baton {

// Not thread-safe, no clock: equal calls give equal orders. Push, Remove and TakeFront take
// O(log n) of what is inside. Bounded by the caller. Of tenants without waiting requests it
// remembers at most a given number, for each priority, and as many of the users of each
// tenant that waits.
class FairQueue {
 public:
  using Entry = QueueEntry;

  explicit FairQueue(size_t max_idle_tenants = 1024) : max_idle_tenants_(max_idle_tenants) {}

  // REQUIRES: no entry of that number is inside.
  void Push(Entry entry);
  // Takes it out unserved. False when it is not inside.
  bool Remove(uint64_t number);

  // Returns the next entry; null if none waits. Valid until something changes.
  const Entry* Front() const;
  // The first is served. REQUIRES: Front() is not null.
  void TakeFront();

  // Calls `visit` with everything inside in the order of being served, if nothing else came.
  // Where it answers false the entry counts as not served. Takes O(n log n).
  void ForEachInOrder(absl::FunctionRef<bool(const Entry&)> visit) const;

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  size_t idle_tenants() const;

 private:
  using Users = FairShare<ArrivalOrder, &Entry::user>;
  using Tenants = FairShare<Users, &Entry::tenant>;

  void RemoveFromLevel(const Entry& entry, bool served);

  const size_t max_idle_tenants_;
  std::map<uint64_t, Entry> entries_;
  std::set<std::pair<int32_t, uint64_t>> resumed_;  // (priority, number)
  std::map<int32_t, Tenants> levels_;               // levels in which an entry waits
};

}  // namespace baton
