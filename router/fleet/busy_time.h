// Measures the time for which something was busy.
#pragma once

#include "absl/time/time.h"

namespace baton {

// Pure; not thread-safe. `now` never goes back. Idle at first.
class BusyTime {
 public:
  // It is busy from now on, or idle.
  void Set(bool busy, absl::Time now) {
    total_ = Total(now);
    since_ = now;
    busy_ = busy;
  }
  bool busy() const { return busy_; }
  // Returns the busy time since this was created.
  absl::Duration Total(absl::Time now) const { return busy_ ? total_ + (now - since_) : total_; }

 private:
  bool busy_ = false;
  absl::Time since_;      // it is so
  absl::Duration total_;  // until then
};

}  // namespace baton
