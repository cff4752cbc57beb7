#include "common/net/connection_rate.h"

#include <iterator>

namespace baton {
namespace {

// Time between two searches for peers to forget. A peer that keeps changing its address must not
// make every connection cost a search over all peers.
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(100);

}  // namespace

bool ConnectionRate::TryTake(const std::string& peer, absl::Time now) {
  return options_.per_second <= 0 || BucketOf(peer, now).TryTake(1, now);
}

TokenBucket& ConnectionRate::BucketOf(const std::string& peer, absl::Time now) {
  const auto known = peers_.find(peer);
  if (known != peers_.end()) return known->second;
  if (peers_.size() >= options_.max_peers && now >= next_forgetting_) {
    next_forgetting_ = now + kBetweenLooks;
    for (auto it = peers_.begin(); it != peers_.end();) {
      it = it->second.Full(now) ? peers_.erase(it) : std::next(it);
    }
  }
  if (peers_.size() >= options_.max_peers) return others_;
  return peers_.try_emplace(peer, options_.per_second, options_.burst).first->second;
}

}  // namespace baton
