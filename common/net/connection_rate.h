// Limits how often peers may connect.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/time/time.h"

#include "common/base/token_bucket.h"

namespace baton {

// Remembers how often each peer has connected of late, and forgets peers that may again connect as
// often as any other. Not thread-safe.
class ConnectionRate {
 public:
  struct Options {
    double per_second = 0;    // new connections of one peer, in the long run; 0: any number
    double burst = 1;         // connections at once after a pause; at least 1
    size_t max_peers = 1024;  // peers that are remembered; all others count as one peer
  };

  explicit ConnectionRate(const Options& options)
      : options_(options), others_(options.per_second, options.burst) {}

  // Whether that peer may connect now. A connection that may is counted. `now` never goes back.
  bool TryTake(const std::string& peer, absl::Time now);
  size_t remembered_peers() const { return peers_.size(); }

 private:
  TokenBucket& BucketOf(const std::string& peer, absl::Time now);

  const Options options_;
  std::map<std::string, TokenBucket> peers_;
  TokenBucket others_;  // bucket shared by all peers that are not in `peers_`
  absl::Time next_forgetting_ = absl::InfinitePast();
};

}  // namespace baton
