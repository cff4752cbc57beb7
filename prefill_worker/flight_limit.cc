#include "prefill_worker/flight_limit.h"

#include <algorithm>

namespace baton {
namespace {

// What waits below us on a link that is used to the full.
constexpr absl::Duration kQueueing = absl::Milliseconds(500);
// With the link's own delay: well below what a keepalive ping may take.
constexpr absl::Duration kMaxLatency = absl::Milliseconds(1200);
// More than so many times its flight, or the least that a fast link needs, is not concluded from
// one message, however soon its answer came: what let it pass may be a burst that the link allows.
constexpr double kMaxGrowth = 4;
constexpr double kEnoughAtFirst = 1 << 20;
constexpr double kMaxGrowthAtFirst = 16;

constexpr absl::Duration kMinPatience = absl::Seconds(2);
constexpr absl::Duration kMaxPatience = absl::Seconds(10);

}  // namespace

void FlightLimit::Acknowledged(uint64_t flight_bytes, absl::Duration latency) {
  latency = std::max(latency, absl::Microseconds(1));
  least_latency_ = std::min(least_latency_, latency);
  slow_latency_ = std::max(latency, slow_latency_ - slow_latency_ / 8);
  const absl::Duration allowed = std::min(least_latency_ + kQueueing, kMaxLatency);
  const auto flight = static_cast<double>(flight_bytes);
  const double most = std::max(kMaxGrowth, std::min(kMaxGrowthAtFirst, kEnoughAtFirst / flight));
  const double growth = std::min(absl::FDivDuration(allowed, latency), most);
  const auto shown = static_cast<uint64_t>(flight * growth);
  bytes_ = growth < 1 ? std::min(bytes_, shown) : std::max(bytes_, shown);
}

absl::Duration FlightLimit::Patience() const {
  return std::clamp(4 * slow_latency_, kMinPatience, kMaxPatience);
}

}  // namespace baton
