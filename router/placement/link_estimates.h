// Estimates how fast KV goes from each prefill worker to each decode worker, and which pairs fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/time/time.h"

namespace baton {

struct LinkEstimate {
  double bytes_per_second = 0;                    // 0: nothing was measured
  absl::Duration exposed = absl::ZeroDuration();  // after the prompt was computed
  bool bad = false;                               // whether hand-offs failed recently
  bool impossible = false;  // the prefill worker cannot reach the address at which pushes come
  // Whether hand-offs of the request that is placed have failed too often on this link (SpentLink),
  // and it is too early for another one.
  bool spent = false;
  bool rests = false;
};

// Pure; not thread-safe. Workers by id. Bounded: beyond kMaxLinks pairs, the
// pairs without news for longest are forgotten.
class LinkEstimates {
 public:
  static constexpr size_t kMaxLinks = 16384;
  // How long a pair is avoided after a failure, twice as long after each further one in a row.
  static constexpr absl::Duration kFirstPause = absl::Seconds(2);
  static constexpr absl::Duration kLongestPause = absl::Seconds(60);

  void Succeeded(uint64_t prefill, uint64_t decode, uint64_t bytes, absl::Duration transfer,
                 absl::Duration exposed);
  void Failed(uint64_t prefill, uint64_t decode, absl::Time now);
  // All pairs of a worker that is gone.
  void Forget(uint64_t worker);

  LinkEstimate Get(uint64_t prefill, uint64_t decode, absl::Time now) const;
  size_t size() const { return links_.size(); }

 private:
  using Pair = std::pair<uint64_t, uint64_t>;
  struct Link {
    double bytes_per_second = 0;
    absl::Duration exposed = absl::ZeroDuration();
    int failures = 0;  // in a row
    absl::Time bad_until = absl::InfinitePast();
    uint64_t heard = 0;  // its key in by_age_
  };
  Link& Heard(const Pair& pair);

  std::map<Pair, Link> links_;
  std::map<uint64_t, Pair> by_age_;
  uint64_t clock_ = 0;
};

}  // namespace baton
