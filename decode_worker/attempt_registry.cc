#include "decode_worker/attempt_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/rpc/status.h"

namespace baton {
namespace {

using internal::v1::AttemptKey;
using internal::v1::PushRefused;

std::string BytesOf(const AttemptKey& key) { return key.SerializeAsString(); }

absl::Status Superseded() {
  return WithErrorInfo(absl::AbortedError("a higher attempt at this request was started"),
                       {kReasonSuperseded, kStageDecode, "", {}});
}

}  // namespace

absl::Status AttemptRegistry::Admit(const AttemptKey& key, End end) {
  End lower;
  {
    absl::MutexLock lock(&mutex_);
    if (attempts_.size() >= max_attempts_) {
      return WithRetryInfo(absl::ResourceExhaustedError("too many sequences on this worker"),
                           absl::Milliseconds(100));
    }
    uint32_t superseded = 0;
    switch (fence_.Admit(key, &superseded)) {
      case AttemptFence::Verdict::kSuperseded:
        return Superseded();
      case AttemptFence::Verdict::kDuplicate:
        return absl::AlreadyExistsError("sequence.key: this attempt was started before");
      default:
        break;
    }
    if (superseded != 0) {
      AttemptKey lower_key = key;
      lower_key.set_attempt(superseded);
      const auto found = attempts_.find(BytesOf(lower_key));
      if (found != attempts_.end()) lower = found->second.end;
    }
    attempts_[BytesOf(key)] = {key, std::move(end), nullptr};
  }
  if (lower) lower(Superseded());
  return absl::OkStatus();
}

void AttemptRegistry::Expect(const AttemptKey& key, std::shared_ptr<AttemptReceiver> receiver) {
  absl::MutexLock lock(&mutex_);
  const auto found = attempts_.find(BytesOf(key));
  if (found != attempts_.end()) found->second.receiver = std::move(receiver);
}

void AttemptRegistry::Remove(const AttemptKey& key) {
  Attempt removed;  // destroyed without the lock: it may hold the last reference to its call
  absl::MutexLock lock(&mutex_);
  const auto found = attempts_.find(BytesOf(key));
  if (found == attempts_.end()) return;
  std::swap(removed, found->second);
  attempts_.erase(found);
  fence_.End(key);
}

std::shared_ptr<AttemptReceiver> AttemptRegistry::Find(const AttemptKey& key,
                                                       PushRefused::Reason* reason) const {
  absl::MutexLock lock(&mutex_);
  *reason = fence_.Check(key) == AttemptFence::Verdict::kSuperseded
                ? PushRefused::REASON_SUPERSEDED
                : PushRefused::REASON_UNKNOWN_ATTEMPT;
  if (*reason == PushRefused::REASON_SUPERSEDED) return nullptr;
  const auto found = attempts_.find(BytesOf(key));
  return found == attempts_.end() ? nullptr : found->second.receiver;
}

void AttemptRegistry::EndAll(const absl::Status& status) {
  std::vector<End> ends;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [key, attempt] : attempts_) ends.push_back(attempt.end);
  }
  for (const End& end : ends) end(status);
}

size_t AttemptRegistry::size() const {
  absl::MutexLock lock(&mutex_);
  return attempts_.size();
}

}  // namespace baton
