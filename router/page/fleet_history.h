// The fleet's load over the last 15 minutes, for the curves of the page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "router/page/fleet_report.h"

namespace baton {

struct FleetPoint {
  absl::Time at{};       // on the loop's clock
  FleetRates rates{};    // over the 5 s before `at`
  int64_t running = 0;   // requests of this router that have not ended
  uint64_t waiting = 0;  // requests in the router's queue
  // Mean time to first token of the requests whose first token came since the point before. None
  // if no first token came.
  std::optional<absl::Duration> first_token{};
};

// Keeps a point for each kInterval. Thread-safe.
class FleetHistory {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(5);
  static constexpr absl::Duration kLength = absl::Minutes(15);
  static constexpr size_t kBound = 180;  // points: kLength / kInterval

  // A request got its first token so long after it was received.
  void SawFirstToken(absl::Duration since_received);
  // To be called several times a second with the present values. Adds a point when kInterval has
  // passed since the last one; `first_token` is filled in here. REQUIRES: `at` never goes back.
  void Tick(FleetPoint point);
  // Returns the points of the last kLength before `now`, the oldest first.
  std::vector<FleetPoint> Get(absl::Time now) const;

 private:
  mutable absl::Mutex mutex_;
  std::deque<FleetPoint> points_ ABSL_GUARDED_BY(mutex_);  // at most kBound
  // First tokens since the last point.
  uint64_t first_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration first_token_sum_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
