// Limits the messages that a worker may send on its Watch streams.
#pragma once

#include "absl/time/time.h"

#include "common/base/token_bucket.h"

namespace baton {

// Pure; not thread-safe. An honest worker sends four messages a second, a few more when its state
// changes, and at the beginning of a stream all pages of its prefix cache, 4096 in a message.
class WatchBudget {
 public:
  static constexpr double kBurst = 2048;    // messages at once
  static constexpr double kPerSecond = 64;  // messages in the long run

  // Counts a message. False: it is one too many.
  bool Take(absl::Time now) { return bucket_.TryTake(1, now); }

 private:
  TokenBucket bucket_{kPerSecond, kBurst};
};

}  // namespace baton
