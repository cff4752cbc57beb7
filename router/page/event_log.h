// Recent events of the fleet and of requests, for people to look at.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace baton {

struct FleetEvent {
  enum class Kind {
    kWorkerUp,
    kWorkerDown,
    kWorkerDraining,
    kQuarantined,
    kRefused,
    kRetried,
    kResumed,
    kFailed,
    kCancelled,
  };
  uint64_t number = 0;  // 1 for the first
  double at = 0;        // Unix seconds
  Kind kind = Kind::kWorkerUp;
  std::string worker{};   // empty: it is about none
  std::string request{};  // the client's id of it; empty: it is about none
  std::string text{};     // one sentence, without a client's text
};
// Such as "worker_up".
const char* FleetEventName(FleetEvent::Kind kind);

// The last kBound events. Thread-safe.
class EventLog {
 public:
  static constexpr size_t kBound = 200;

  // Gives the event its number and the time.
  void Add(FleetEvent event);
  // The oldest first.
  std::vector<FleetEvent> Get() const;

 private:
  mutable absl::Mutex mutex_;
  std::deque<FleetEvent> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace baton
