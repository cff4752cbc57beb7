#include "router/fleet/link_failures.h"

#include <algorithm>

namespace baton {

const LinkFailure* LinkFailures::Failed(uint64_t prefill, uint64_t decode, const std::string& fault,
                                        const std::string& text, absl::Time now) {
  const auto [found, is_new] = entries_.try_emplace({prefill, decode, fault});
  Entry& entry = found->second;
  if (is_new) {
    entry.failure = {.prefill = prefill, .decode = decode, .fault = fault, .text = text};
  }
  entry.failure.text = text;
  ++entry.failure.count;
  entry.failure.last = now;
  if (entries_.size() > kMaxFailures) {
    entries_.erase(
        std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
          return a.second.failure.last < b.second.failure.last;
        }));
    if (entries_.count({prefill, decode, fault}) == 0) return nullptr;  // all failed just now
  }
  if (now < entry.log_at) return nullptr;
  entry.log_at = now + entry.pause;
  entry.pause = std::min(2 * entry.pause, kLongestPause);
  return &entry.failure;
}

void LinkFailures::Succeeded(uint64_t prefill, uint64_t decode) {
  std::erase_if(entries_, [&](const auto& one) {
    return one.second.failure.prefill == prefill && one.second.failure.decode == decode;
  });
}

void LinkFailures::Forget(uint64_t worker) {
  std::erase_if(entries_, [worker](const auto& one) {
    return one.second.failure.prefill == worker || one.second.failure.decode == worker;
  });
}

std::vector<LinkFailure> LinkFailures::Get(absl::Time now) const {
  std::vector<LinkFailure> failures;
  for (const auto& [key, entry] : entries_) {
    if (now - entry.failure.last < kReported) failures.push_back(entry.failure);
  }
  return failures;
}

}  // namespace baton
