// Remembers between which workers hand-offs of one request have failed, so that the request is not
// handed off there again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

#include "router/request/events.h"

namespace baton {

// A value; not thread-safe. Workers are named by their ids, so a worker that was restarted has new
// links.
//
// The link of a pair is *spent* after kTries failures. Placement takes another pair then, or has
// the decode worker prefill. Only if neither is possible does it take a spent link once more, after
// a rest that doubles with each further failure: a link that is down for some seconds costs no
// request.
class LinkTries {
 public:
  static constexpr int kTries = 2;
  static constexpr absl::Duration kFirstRest = absl::Seconds(1);
  static constexpr absl::Duration kLongestRest = absl::Seconds(16);
  // Most links that are remembered. Beyond that, the links that failed first are forgotten.
  static constexpr size_t kMaxLinks = 64;

  // Records that a hand-off failed at `now`. `for_good`: hand-offs fail on this link as long as
  // both workers live, so the link rests for ever once it is spent.
  void Failed(uint64_t prefill, uint64_t decode, bool for_good, absl::Time now);
  std::vector<SpentLink> spent() const;

 private:
  struct Link {
    uint64_t prefill = 0;
    uint64_t decode = 0;
    int failures = 0;
    bool for_good = false;
    absl::Time failed{};  // the last time
  };
  std::vector<Link> links_;  // in the order of their first failures
};

}  // namespace baton
