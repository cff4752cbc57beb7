// Whether a worker that keeps failing is given requests.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace baton {

// Pure; not thread-safe. Closed: the worker takes requests. After kFailures in a row it is open: it
// takes none for a pause, then one, the probe, whose success closes it; while there is no
// answer or it fails, the next one after a pause that grows.
//
// Requests that run beside each other fail together when a connection breaks: only what was given
// after a failure was reported can be the next in a row.
class CircuitBreaker {
 public:
  static constexpr int kFailures = 5;
  static constexpr absl::Duration kFirstPause = absl::Milliseconds(500);
  static constexpr absl::Duration kLongestPause = absl::Seconds(10);

  bool Takes(absl::Time now) const { return !open() || now >= open_until_; }
  bool open() const { return failures_ >= kFailures; }

  // The worker is given a request. Returns the argument for Failed if it fails. REQUIRES:
  // Takes(now).
  uint64_t Begin(absl::Time now);
  // The worker did something useful.
  void Succeeded() { failures_ = 0; }
  // The request for which Begin returned `begun` failed by the worker's fault (IsWorkersFault).
  void Failed(uint64_t begun, absl::Time now);

 private:
  int failures_ = 0;    // in a row
  uint64_t heard_ = 0;  // failures, ever
  absl::Duration pause_ = kFirstPause;
  absl::Time open_until_ = absl::InfinitePast();
};

// What ended a call to a worker speaks against it: not the client's errors, a full queue, a drain,
// a cancelled call, or a transfer, which has two ends.
bool IsWorkersFault(const absl::Status& status);

}  // namespace baton
