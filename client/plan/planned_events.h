// The future events of a planned fleet, ordered by time and, at one time, by creation.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace baton {

struct PlannedEvent {
  enum class Kind : uint8_t {
    kArrival,    // a request comes
    kAsk,        // it asks for workers
    kStepDone,   // a worker's step is done
    kPostponed,  // a request may have waited for long for its decode worker's memory
    kPushed,     // its KV is on the decode worker
  };
  int64_t at_ns = 0;
  uint64_t order = 0;
  Kind kind = Kind::kArrival;
  uint32_t subject = 0;  // a request or, of kStepDone, a worker

  bool operator>(const PlannedEvent& other) const {
    return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
  }
};

// Not thread-safe.
class PlannedEvents {
 public:
  void Add(int64_t at_ns, PlannedEvent::Kind kind, uint32_t subject) {
    events_.push({.at_ns = at_ns, .order = made_++, .kind = kind, .subject = subject});
  }
  // REQUIRES: not empty().
  PlannedEvent Next() {
    const PlannedEvent next = events_.top();
    events_.pop();
    return next;
  }
  bool empty() const { return events_.empty(); }

 private:
  std::priority_queue<PlannedEvent, std::vector<PlannedEvent>, std::greater<>> events_;
  uint64_t made_ = 0;
};

}  // namespace baton
