#include "decode_worker/attempt_fence.h"

namespace baton {
namespace {

std::tuple<uint64_t, uint64_t, uint32_t> ChoiceOf(const internal::v1::AttemptKey& key) {
  return {key.request_id_high(), key.request_id_low(), key.choice()};
}

}  // namespace

AttemptFence::Verdict AttemptFence::Admit(const internal::v1::AttemptKey& key,
                                          uint32_t* superseded) {
  *superseded = 0;
  Entry& entry = choices_[ChoiceOf(key)];
  if (key.attempt() < entry.highest) return Verdict::kSuperseded;
  if (key.attempt() == entry.highest) return Verdict::kDuplicate;
  if (entry.live) *superseded = entry.highest;
  entry = {key.attempt(), true};
  return Verdict::kCurrent;
}

void AttemptFence::End(const internal::v1::AttemptKey& key) {
  const auto found = choices_.find(ChoiceOf(key));
  if (found == choices_.end() || found->second.highest != key.attempt() || !found->second.live) {
    return;
  }
  found->second.live = false;
  ended_.push_back(found->first);
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
