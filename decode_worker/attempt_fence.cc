#include "decode_worker/attempt_fence.h"

#include <algorithm>
#include <utility>

namespace baton {
namespace {

std::tuple<uint64_t, uint64_t, uint32_t> ChoiceOf(const internal::v1::AttemptKey& key,
                                                  uint32_t offset = 0) {
  return {key.request_id_high(), key.request_id_low(), key.choice() + offset};
}

}  // namespace

AttemptFence::Verdict AttemptFence::Admit(const internal::v1::AttemptKey& key, uint32_t choices,
                                          std::vector<internal::v1::AttemptKey>* superseded) {
  superseded->clear();
  // tests/planted_bugs: lower_attempt_admitted
  for (uint32_t i = 0; i < choices; ++i) {
    const auto found = choices_.find(ChoiceOf(key, i));
    if (found == choices_.end()) continue;
    if (key.attempt() < found->second.highest) return Verdict::kSuperseded;
    if (key.attempt() == found->second.highest) return Verdict::kDuplicate;
  }
  std::vector<std::pair<uint32_t, uint32_t>> lower;  // first choice and number of each attempt
  for (uint32_t i = 0; i < choices; ++i) {
    // tests/planted_bugs: choices_fenced_by_the_first
    Entry& entry = choices_[ChoiceOf(key, i)];
    if (entry.live) lower.emplace_back(entry.first_choice, entry.highest);
    entry = {.highest = key.attempt(), .first_choice = key.choice(), .live = true};
  }
  std::sort(lower.begin(), lower.end());
  lower.erase(std::unique(lower.begin(), lower.end()), lower.end());
  for (const auto& [choice, attempt] : lower) {
    internal::v1::AttemptKey ended = key;
    ended.set_choice(choice);
    ended.set_attempt(attempt);
    superseded->push_back(std::move(ended));
  }
  return Verdict::kCurrent;
}

void AttemptFence::End(const internal::v1::AttemptKey& key, uint32_t choices) {
  for (uint32_t i = 0; i < choices; ++i) {
    const auto found = choices_.find(ChoiceOf(key, i));
    if (found == choices_.end() || found->second.highest != key.attempt() || !found->second.live) {
      continue;
    }
    found->second.live = false;
    ended_.push_back(found->first);
  }
  Forget();
}

AttemptFence::Verdict AttemptFence::Check(const internal::v1::AttemptKey& key) const {
  const auto found = choices_.find(ChoiceOf(key));
  if (found == choices_.end() || key.attempt() > found->second.highest) return Verdict::kUnknown;
  if (key.attempt() < found->second.highest) return Verdict::kSuperseded;
  return found->second.live ? Verdict::kCurrent : Verdict::kUnknown;
}

void AttemptFence::Forget() {
  while (ended_.size() > remembered_) {
    const auto found = choices_.find(ended_.front());
    if (found != choices_.end() && !found->second.live) choices_.erase(found);
    ended_.pop_front();
  }
}

}  // namespace baton
