#include "decode_worker/attempt_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/failpoint.h"
#include "common/protocol/worker_status.h"
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

absl::Status AttemptRegistry::Admit(const AttemptKey& key, uint32_t choices, End end) {
  std::vector<End> lower;
  {
    absl::MutexLock lock(&mutex_);
    if (attempts_.size() >= max_attempts_) {
      return WorkerFullStatus("too many sequences on this decode worker", "", kStageQueue);
    }
    std::vector<AttemptKey> superseded;
    switch (fence_.Admit(key, choices, &superseded)) {
      case AttemptFence::Verdict::kSuperseded:
        return Superseded();
      case AttemptFence::Verdict::kDuplicate:
        return absl::AlreadyExistsError("sequence.key: this attempt was started before");
      default:
        break;
    }
    for (const AttemptKey& lower_key : superseded) {
      BATON_FAILPOINT("attempt_registry.before_supersede");
      const auto found = attempts_.find(BytesOf(lower_key));
      if (found != attempts_.end()) lower.push_back(found->second.end);
    }
    attempts_[BytesOf(key)] = {key, choices, std::move(end), nullptr};
  }
  for (const End& end_lower : lower) end_lower(Superseded());
  return absl::OkStatus();
}

void AttemptRegistry::Expect(const AttemptKey& key, std::shared_ptr<ReceiveDriver> driver) {
  absl::MutexLock lock(&mutex_);
  const auto found = attempts_.find(BytesOf(key));
  if (found != attempts_.end()) found->second.driver = std::move(driver);
}

void AttemptRegistry::Remove(const AttemptKey& key) {
  Attempt removed;  // destroyed without the lock: it may hold the last reference to its call
  absl::MutexLock lock(&mutex_);
  const auto found = attempts_.find(BytesOf(key));
  if (found == attempts_.end()) return;
  std::swap(removed, found->second);
  attempts_.erase(found);
  fence_.End(key, removed.choices);
}

std::shared_ptr<ReceiveDriver> AttemptRegistry::Find(const AttemptKey& key,
                                                     PushRefused::Reason* reason) const {
  absl::MutexLock lock(&mutex_);
  *reason = fence_.Check(key) == AttemptFence::Verdict::kSuperseded
                ? PushRefused::REASON_SUPERSEDED
                : PushRefused::REASON_UNKNOWN_ATTEMPT;
  if (*reason == PushRefused::REASON_SUPERSEDED) return nullptr;
  const auto found = attempts_.find(BytesOf(key));
  return found == attempts_.end() ? nullptr : found->second.driver;
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
