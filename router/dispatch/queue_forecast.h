// How long a request will wait: what goes before it, over the rate at which the queue was served
// lately.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

#include "router/dispatch/fair_queue.h"

namespace baton {

// The rate at which requests get workers while others wait for theirs, in tokens a second: only
// then does it show what the workers can take. It is that of the last two seconds of such time, or
// of the last eight requests where those took longer, and not known before so much was measured: a
// worker that stands still for a moment is usual. Time in which no request waits does not count.
// Nor is, after a pause in which the workers ran out of work, the time until the first request gets
// its worker: they may be slow to begin. After two seconds in which no request waits it is not
// known any more. Not thread-safe; `now` never goes back.
class DrainRate {
 public:
  // Sets whether, from now on, a request waits for a busy worker.
  void SetWaiting(bool somebody_waits, absl::Time now);
  bool somebody_waits() const { return somebody_waits_; }
  // A request of `tokens` tokens got its workers.
  void Left(uint64_t tokens, absl::Time now);
  // None while it is not known.
  std::optional<double> TokensPerSecond(absl::Time now) const;
  // Until the next of those that wait gets its workers, at that rate; zero without one.
  absl::Duration UntilNext(absl::Time now) const;

 private:
  bool known() const;
  double SecondsSinceLast(absl::Time now) const;  // seconds in which a request waited

  bool somebody_waits_ = false;
  absl::Time since_ = absl::InfinitePast();         // it is so, or a request left
  absl::Duration waited_before_;                    // since a request left, up to `since_`
  bool measures_ = false;                           // a request left since the workers began
  double seconds_ = 0, tokens_ = 0, requests_ = 0;  // what was measured, older parts weigh less
};

// Who waits: a tenant's user.
struct Sharer {
  std::string tenant;
  std::string user{};
};

// What waits, by priority, tenant and user. Not thread-safe.
class Backlog {
 public:
  void Add(int32_t priority, const Sharer& sharer, uint64_t tokens);
  void Remove(int32_t priority, const Sharer& sharer, uint64_t tokens);  // as it was added
  // The tokens that are served before a request of so many that comes now, as FairQueue shares:
  // all of lower priority numbers; of its own, what its user has waiting and up to as much, with
  // the request itself, of every other user of its tenant; and up to as much as all of that of
  // every other tenant.
  uint64_t Ahead(int32_t priority, const Sharer& sharer, uint64_t tokens) const;
  uint64_t tokens() const { return tokens_; }

 private:
  struct Users {
    uint64_t tokens = 0;
    std::map<std::string, uint64_t> users;  // those with more than 0
  };
  struct Level {
    uint64_t tokens = 0;
    std::map<std::string, Users> tenants;  // those with more than 0
  };
  uint64_t tokens_ = 0;
  std::map<int32_t, Level> levels_;
};

// The waiting requests that will not get a worker within what `time_left` says, even if the queue
// is served at twice the rate: a forecast for requests that have waited already has to be sure.
// Without a rate only time that has passed counts. In the order of being served.
std::vector<uint64_t> WhoIsTooLate(
    const FairQueue& queue, std::optional<double> tokens_per_second,
    absl::FunctionRef<absl::Duration(const FairQueue::Entry&)> time_left);

}  // namespace baton
