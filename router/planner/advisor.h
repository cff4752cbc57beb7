// Measures the fleet for the planner, and keeps its advice.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/time.h"

#include "router/fleet/worker.h"
#include "router/planner/advice.h"
#include "router/planner/demand.h"
#include "router/planner/planner.h"
#include "router/planner/step_time.h"

namespace baton {

// On the loop's thread only. Borrows `demand`.
class Advisor {
 public:
  // Requests that were turned away so far because of the load.
  using Refused = std::function<uint64_t()>;

  Advisor(const Demand& demand, const Planner::Options& options, Refused refused)
      : demand_(demand), refused_(std::move(refused)), planner_(options) {}

  // To be called four times a second. The advice is a new one once a second.
  const Advice& Tick(const WorkersByTarget& workers, absl::Time now);

 private:
  // The reports of a decode worker over some seconds.
  struct Reports {
    uint64_t incarnation = 0;
    absl::Time began;               // when the first of them came
    uint64_t generated_tokens = 0;  // as it had it
    double count = 0;
    double first_sequences = 0;
    double sequences = 0, used_blocks = 0, with_queue = 0;  // sums
    void Add(const Worker& worker);
  };
  // What was counted of a worker last.
  struct Seen {
    WorkerTraffic traffic;
    absl::Duration busy;
    Reports reports;
  };
  void CountPrompts(const Worker& worker, Seen& seen, absl::Time now);
  void CountTokens(const Worker& worker, Reports& reports);

  const Demand& demand_;
  const Refused refused_;
  Planner planner_;
  StepTime steps_;
  FleetLoad load_;
  std::map<WorkerTarget, Seen> seen_;
  double decoding_ = 0;  // sum over the ticks since the last advice
  int ticks_ = 0;
  Advice advice_;
};

}  // namespace baton
