#include "router/front/refusals.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "router/tenants/keys_file.h"

namespace baton {

Refusals::~Refusals() {
  std::multimap<absl::Time, Held> held;
  {
    absl::MutexLock lock(&mutex_);
    held.swap(held_);
  }
  for (auto& [due, refusal] : held) refusal.tell();
}

void Refusals::Refuse(const Caller& caller, const absl::Status& status, Tell tell) {
  if (caller.declared && absl::IsResourceExhausted(status)) {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = loop_.Now();
    Tenant& tenant = TenantOf(caller);
    if (!tenant.told.TryTake(1, now) && held_.size() < kMostHeld) {
      const absl::Duration hold =
          std::clamp(absl::Seconds(tenant.held / kHeldPerSecond), kHold, kMostHold);
      ++tenant.held;
      const auto place =
          held_.emplace(now + hold, Held{.tenant = caller.tenant, .tell = std::move(tell)});
      if (place == held_.begin()) loop_.Post([this] { TellDue(); });
      return;
    }
  }
  tell();
}

Refusals::Tenant& Refusals::TenantOf(const Caller& caller) {
  // Keys come and go: a tenant that is forgotten here begins anew.
  if (tenants_.size() >= kMaxTenants && tenants_.count(caller.tenant) == 0) tenants_.clear();
  return tenants_[caller.tenant];
}

void Refusals::TellDue() {
  std::vector<Tell> due;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = loop_.Now();
    while (!held_.empty() && held_.begin()->first <= now) {
      Held& refusal = held_.begin()->second;
      const auto tenant = tenants_.find(refusal.tenant);
      if (tenant != tenants_.end() && tenant->second.held > 0) --tenant->second.held;
      due.push_back(std::move(refusal.tell));
      held_.erase(held_.begin());
    }
    loop_.Cancel(timer_);
    if (!held_.empty()) timer_ = loop_.RunAt(held_.begin()->first, [this] { TellDue(); });
  }
  for (Tell& tell : due) tell();
}

}  // namespace baton
