#include "tests/simulation/router/told_quarantines.h"

#include <algorithm>
#include <utility>

#include "common/rpc/limits.h"

namespace baton {
namespace {

constexpr Micros kReadingTime = 100;  // turns of the router's loop

}  // namespace

// A worker that was silent for long is given up, and heard only once it introduces itself again.
void ToldQuarantines::Heard(const std::string& decode, const internal::v1::WatchResponse& message,
                            Micros now) {
  Worker& by = workers_[decode];
  const bool silent = absl::Microseconds(now - by.heard_at) > kProgressTimeout;
  by.known = message.has_info() || (by.known && !silent);
  by.heard_at = now;
  if (!by.known) return;
  std::map<std::string, Micros> told;
  for (const std::string& pusher : message.quarantined_pushers()) {
    const auto before = by.told.find(pusher);
    told[pusher] = before == by.told.end() ? now : before->second;
  }
  by.told = std::move(told);
}

bool ToldQuarantines::Forbid(const std::string& prefill, Micros now) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& worker) {
    const auto told = worker.second.told.find(prefill);
    return told != worker.second.told.end() && now - told->second > kReadingTime;
  });
}

}  // namespace baton
