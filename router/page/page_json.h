// The JSON that the page reads: its keys are in docs/page.md. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "router/page/event_log.h"
#include "router/page/fleet_history.h"
#include "router/page/fleet_report.h"
#include "router/page/request_record.h"

namespace baton {

// The router itself, beside its fleet.
struct RouterReport {
  std::string name{};
  std::string model{};
  bool draining = false;
  absl::Duration uptime{};
  int64_t running = 0;
  uint64_t waiting = 0;
  int64_t streams_behind = 0;
  std::map<std::string, uint64_t> refused{};  // by reason
};

// `now`: Unix seconds.
std::string FleetJson(double now, const RouterReport& router, const FleetReport& fleet,
                      const std::vector<FleetEvent>& events);
// `now`: Unix seconds; `steady_now`: the same moment on the clock of the points, which are in the
// order of their times.
std::string HistoryJson(double now, absl::Time steady_now, const std::vector<FleetPoint>& points);
std::string RequestsJson(const std::vector<RequestRecord>& records);
std::string RequestJson(const RequestRecord& record);
std::string KvJson(const FleetReport& fleet);

}  // namespace baton
