// The prefill workers whose KV proved to be wrong.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "baton/internal/v1/decode.pb.h"

namespace baton {

// Names a pusher here and in what the router is told: the id in its certificate, or without TLS its
// worker's name. Empty: nobody is named.
std::string PusherKey(const internal::v1::Pusher& pusher);

// The quarantine lasts until this process ends: what was wrong once may be wrong again, and only a
// person can know better. Not thread-safe.
class Quarantine {
 public:
  // The most pushers in quarantine. When it is full everybody is in it: so many wrong ones are not
  // believed to be all.
  static constexpr size_t kMost = 64;

  // `pusher` is a PusherKey. Does nothing where that is empty, or the quarantine is full.
  void Add(const std::string& pusher);
  // UNAVAILABLE with reason PUSHER_QUARANTINED where the pusher may not push any more.
  absl::Status CheckTrusted(const std::string& pusher) const;
  std::vector<std::string> pushers() const {
    return {pushers_.begin(), pushers_.end()};
  }  // ascending
  size_t size() const { return pushers_.size(); }

 private:
  std::set<std::string> pushers_;
};

}  // namespace baton
