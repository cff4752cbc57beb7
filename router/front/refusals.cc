#include "router/front/refusals.h"

#include <utility>
#include <vector>

#include "router/tenants/keys_file.h"

namespace baton {

Refusals::~Refusals() {
  std::deque<Held> held;
  {
    absl::MutexLock lock(&mutex_);
    held.swap(held_);
  }
  for (Held& refusal : held) refusal.tell();
}

void Refusals::Refuse(const Caller& caller, const absl::Status& status, Tell tell) {
  if (caller.declared && absl::IsResourceExhausted(status)) {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = loop_.Now();
    if (IsTooOften(caller, now) && held_.size() < kMostHeld) {
      held_.push_back({.due = now + kHold, .tell = std::move(tell)});
      if (held_.size() == 1) loop_.Post([this] { TellDue(); });
      return;
    }
  }
  tell();
}

bool Refusals::IsTooOften(const Caller& caller, absl::Time now) {
  const auto found = told_.find(caller.tenant);
  if (found != told_.end()) return !found->second.TryTake(1, now);
  // Keys come and go: whoever is forgotten here begins anew.
  if (told_.size() >= kMaxTenants) told_.clear();
  told_.emplace(caller.tenant, TokenBucket(kPerSecond, kBurst)).first->second.Take(1, now);
  return false;
}

void Refusals::TellDue() {
  std::vector<Tell> due;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = loop_.Now();
    while (!held_.empty() && held_.front().due <= now) {
      due.push_back(std::move(held_.front().tell));
      held_.pop_front();
    }
    if (!held_.empty()) loop_.RunAt(held_.front().due, [this] { TellDue(); });
  }
  for (Tell& tell : due) tell();
}

}  // namespace baton
