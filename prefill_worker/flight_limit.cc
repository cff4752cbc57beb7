#include "prefill_worker/flight_limit.h"

#include <algorithm>

namespace baton {
namespace {

// Time for which bytes may wait below this program on a fully used link.
constexpr absl::Duration kQueueing = absl::Milliseconds(500);
// The most that waiting and the link's own delay may take: well below a keepalive ping's timeout.
constexpr absl::Duration kMaxLatency = absl::Milliseconds(1200);
// One message raises the limit to at most kMaxGrowth times its flight, however soon its answer
// came, because the link may have let a burst pass. While the flight is small it may raise the
// limit to kEnoughAtFirst bytes, but by no more than kMaxGrowthAtFirst.
constexpr double kMaxGrowth = 4;
constexpr double kEnoughAtFirst = 1 << 20;
constexpr double kMaxGrowthAtFirst = 16;

constexpr absl::Duration kMinPatience = absl::Seconds(2);
// A message is repeated before its stream counts as silent (SendLimits::ack_timeout).
constexpr absl::Duration kMaxPatience = absl::Seconds(5);

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
