#include "router/page/event_log.h"

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace baton {

const char* FleetEventName(FleetEvent::Kind kind) {
  switch (kind) {
    case FleetEvent::Kind::kWorkerUp:
      return "worker_up";
    case FleetEvent::Kind::kWorkerDown:
      return "worker_down";
    case FleetEvent::Kind::kWorkerDraining:
      return "worker_draining";
    case FleetEvent::Kind::kQuarantined:
      return "quarantined";
    case FleetEvent::Kind::kRefused:
      return "refused";
    case FleetEvent::Kind::kRetried:
      return "retried";
    case FleetEvent::Kind::kResumed:
      return "resumed";
    case FleetEvent::Kind::kFailed:
      return "failed";
    case FleetEvent::Kind::kCancelled:
      return "cancelled";
  }
  return "";
}

void EventLog::Add(FleetEvent event) {
  event.at = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  absl::MutexLock lock(&mutex_);
  event.number = next_number_++;
  events_.push_back(std::move(event));
  if (events_.size() > kBound) events_.pop_front();
}

std::vector<FleetEvent> EventLog::Get() const {
  absl::MutexLock lock(&mutex_);
  return {events_.begin(), events_.end()};
}

}  // namespace baton
