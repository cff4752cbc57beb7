#include "router/placement/link_estimates.h"

#include <algorithm>

namespace baton {
namespace {

constexpr double kWeightOfNew = 0.2;
// Smaller hand-offs say more about the round trip than about the rate.
constexpr uint64_t kLeastMeasuredBytes = uint64_t{64} << 10;
// No link is faster or slower, and no hand-off longer, whatever a worker reports.
constexpr double kMostBytesPerSecond = 1e12;
constexpr double kLeastBytesPerSecond = 1e3;
constexpr absl::Duration kLongestExposed = absl::Minutes(10);

}  // namespace

void LinkEstimates::Succeeded(uint64_t prefill, uint64_t decode, uint64_t bytes,
                              absl::Duration transfer, absl::Duration exposed) {
  Link& link = Heard({prefill, decode});
  link.failures = 0;
  link.bad_until = absl::InfinitePast();
  if (bytes < kLeastMeasuredBytes || transfer <= absl::ZeroDuration()) return;
  const double rate = std::clamp(static_cast<double>(bytes) / absl::ToDoubleSeconds(transfer),
                                 kLeastBytesPerSecond, kMostBytesPerSecond);
  exposed = std::clamp(exposed, absl::ZeroDuration(), kLongestExposed);
  if (link.bytes_per_second == 0) {
    link.bytes_per_second = rate;
    link.exposed = exposed;
    return;
  }
  link.bytes_per_second += kWeightOfNew * (rate - link.bytes_per_second);
  link.exposed += kWeightOfNew * (exposed - link.exposed);
}

void LinkEstimates::Failed(uint64_t prefill, uint64_t decode, absl::Time now) {
  Link& link = Heard({prefill, decode});
  if (now < link.bad_until) return;  // the hand-off was on its way when the link broke
  link.failures = std::min(link.failures + 1, 16);
  link.bad_until = now + std::min(kFirstPause * (int64_t{1} << (link.failures - 1)), kLongestPause);
}

void LinkEstimates::Forget(uint64_t worker) {
  for (auto link = links_.begin(); link != links_.end();) {
    const auto& [prefill, decode] = link->first;
    if (prefill != worker && decode != worker) {
      ++link;
      continue;
    }
    by_age_.erase(link->second.heard);
    link = links_.erase(link);
  }
}

LinkEstimate LinkEstimates::Get(uint64_t prefill, uint64_t decode, absl::Time now) const {
  const auto found = links_.find({prefill, decode});
  if (found == links_.end()) return {};
  const Link& link = found->second;
  return {.bytes_per_second = link.bytes_per_second,
          .exposed = link.exposed,
          .bad = now < link.bad_until};
}

LinkEstimates::Link& LinkEstimates::Heard(const Pair& pair) {
  const auto [found, is_new] = links_.try_emplace(pair);
  if (!is_new) by_age_.erase(found->second.heard);
  found->second.heard = ++clock_;
  by_age_[clock_] = pair;
  if (links_.size() > kMaxLinks) {
    const auto oldest = by_age_.begin();
    links_.erase(oldest->second);
    by_age_.erase(oldest);
  }
  return found->second;
}

}  // namespace baton
