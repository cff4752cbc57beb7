// Makes the report of the fleet, and the events of what has changed in it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "router/fleet/fleet.h"
#include "router/fleet/worker.h"
#include "router/page/event_log.h"
#include "router/page/fleet_report.h"
#include "router/page/rate_window.h"
#include "router/planner/advice.h"

namespace baton {

// On the loop's thread only. Borrows the board, the log and the fleet.
class FleetReporter {
 public:
  // How many requests were refused so far, by reason.
  using Refusals = std::function<std::map<std::string, uint64_t>()>;

  FleetReporter(FleetBoard& board, EventLog& events, Fleet& fleet, Refusals refusals)
      : board_(board), events_(events), fleet_(fleet), refusals_(std::move(refusals)) {}

  // To be called four times a second.
  void Tick(const WorkersByTarget& workers, const Advice& advice);

 private:
  // The last report about a worker.
  struct Told {
    RateWindow rates;
    std::string state{};
    std::string name{};
  };
  WorkerReport Describe(const Worker& worker, absl::Time now) const;
  void TellChange(const WorkerReport& report, Told& told);
  void TellRefusals();

  FleetBoard& board_;
  EventLog& events_;
  Fleet& fleet_;
  const Refusals refusals_;
  std::map<WorkerTarget, Told> told_;
  std::vector<PrefixPageReport> prefixes_;  // as last looked up
  uint64_t ticks_ = 0;
  std::map<std::string, uint64_t> refused_;  // by reason, as last reported
};

}  // namespace baton
