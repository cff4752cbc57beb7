// The prefill workers whose KV proved to be wrong.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "baton/internal/v1/decode.pb.h"

namespace baton {

// Returns the name of a pusher, here and in reports to the router: the id in its certificate, or
// without TLS its worker's name. Empty if there is none.
std::string PusherKey(const internal::v1::Pusher& pusher);

// The quarantine lasts until this process ends, because only a person can decide that a pusher is
// sound again. Not thread-safe.
class Quarantine {
 public:
  // The most pushers in quarantine. When it is full, it includes every pusher, because further ones
  // are probably wrong, too.
  static constexpr size_t kMost = 64;

  // `pusher` is a PusherKey. Does nothing if that is empty, or the quarantine is full.
  void Add(const std::string& pusher);
  // UNAVAILABLE with reason PUSHER_QUARANTINED if the pusher may not push any more.
  absl::Status CheckTrusted(const std::string& pusher) const;
  std::vector<std::string> pushers() const {
    return {pushers_.begin(), pushers_.end()};
  }  // ascending
  size_t size() const { return pushers_.size(); }

 private:
  std::set<std::string> pushers_;
};

}  // namespace baton
