#include "router/request/link_tries.h"

#include <algorithm>

namespace baton {

void LinkTries::Failed(uint64_t prefill, uint64_t decode, bool for_good, absl::Time now) {
  auto link = std::find_if(links_.begin(), links_.end(), [&](const Link& one) {
    return one.prefill == prefill && one.decode == decode;
  });
  if (link == links_.end()) {
    if (links_.size() == kMaxLinks) links_.erase(links_.begin());
    link = links_.insert(links_.end(), {.prefill = prefill, .decode = decode});
  }
  ++link->failures;
  link->for_good |= for_good;
  link->failed = now;
}

std::vector<SpentLink> LinkTries::spent() const {
  constexpr int kMostDoublings = 10;
  std::vector<SpentLink> spent;
  for (const Link& link : links_) {
    // tests/planted_bugs: spent_link_taken_again
    if (link.failures < kTries) continue;
    const int doublings = std::min(link.failures - kTries, kMostDoublings);
    const absl::Duration rest = std::min(kFirstRest * (int64_t{1} << doublings), kLongestRest);
    spent.push_back({.prefill = link.prefill,
                     .decode = link.decode,
                     .rests_until = link.for_good ? absl::InfiniteFuture() : link.failed + rest});
  }
  return spent;
}

}  // namespace baton
