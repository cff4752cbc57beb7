// The order in which waiting requests get their workers.
//
// First those that were served before, whose workers broke: their clients have part of an answer.
// Then by priority, the lower number first. Among the requests of one priority tenants share what
// leaves the queue, in tokens, and a tenant's own requests go in the order of their arrival.
//
// The sharing is start-time fair queueing. A tenant's tag says how much it was served; the least
// tag goes next, and its tenant is charged with the request's tokens then, not before: what leaves
// the queue unserved costs nothing. A tenant that comes, or comes back, begins at the level's
// virtual time, which grows with each request served by that request's share of all tenants that
// wait. So nobody saves up for a burst by staying away, and however many tenants come anew, those
// that wait are reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"

namespace baton {

// Not thread-safe, no clock: equal calls give equal orders. Push, Remove and TakeFront take
// O(log n) of what is inside. Bounded by whoever pushes; of tenants none of whose requests wait it
// remembers at most as many as it was told, and forgets those first that owe least.
class FairQueue {
 public:
  struct Entry {
    uint64_t number = 0;  // grows in the order of arrival; no two are equal
    int32_t priority = 0;
    std::string tenant;
    uint64_t tokens = 0;   // prompt and expected output
    bool resumed = false;  // was served before, and charged then
  };

  explicit FairQueue(size_t max_idle_tenants = 1024) : max_idle_tenants_(max_idle_tenants) {}

  // REQUIRES: no entry of that number is inside.
  void Push(Entry entry);
  // Takes it out unserved. False when it is not inside.
  bool Remove(uint64_t number);

  // Who is next; null when nobody waits. Valid until something changes.
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
  struct Tenant {
    const std::string* name = nullptr;  // its key
    double tag = 0;                     // tokens
    std::set<uint64_t> waiting;         // numbers
  };
  // A tenant that waits stands at (tag, its first number).
  using Position = std::pair<double, uint64_t>;
  // The requests of one priority. Exists while one of them waits.
  struct Level {
    double virtual_time = 0;  // tokens
    std::map<std::string, Tenant> tenants;
    std::map<Position, Tenant*> active;                      // those that wait
    std::map<std::pair<double, std::string>, Tenant*> idle;  // the others, which owe: tag > time
  };

  static Position PositionOf(const Tenant& tenant) { return {tenant.tag, *tenant.waiting.begin()}; }
  // Puts a tenant where it belongs after its tag or requests changed; it may be forgotten.
  void Place(Level& level, Tenant& tenant);
  void ForgetIdle(Level& level);
  void RemoveFrom(Level& level, const Entry& entry, bool served);

  const size_t max_idle_tenants_;  // bound for each priority
  std::map<uint64_t, Entry> entries_;
  std::set<std::pair<int32_t, uint64_t>> resumed_;  // (priority, number)
  std::map<int32_t, Level> levels_;
};

}  // namespace baton
