// What the declared tenants use of what they may.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/base/token_bucket.h"
#include "common/net/metrics.h"
#include "router/tenants/caller.h"

namespace baton {

// Thread-safe. Outlives its uses. Callers of tenants that the keys file does not declare are not
// limited and not counted. `now` is any clock that never goes back.
class Quotas {
  struct Account;

 public:
  // One request, from its admission to its end: a stream that gives itself back.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept { *this = std::move(other); }
    Use& operator=(Use&& other) noexcept {
      std::swap(quotas_, other.quotas_);
      std::swap(account_, other.account_);
      std::swap(charged_, other.charged_);
      return *this;
    }
    ~Use() { End(); }

    // The request has used so many tokens by now, of prompt and output.
    void ChargeUpTo(uint64_t tokens, absl::Time now);
    void End();

   private:
    friend class Quotas;
    Quotas* quotas_ = nullptr;
    Account* account_ = nullptr;
    uint64_t charged_ = 0;  // tokens
  };

  // Borrows `metrics`, whose labels name declared tenants only.
  explicit Quotas(Metrics& metrics) : metrics_(metrics) {}

  // RESOURCE_EXHAUSTED with RetryInfo, and a reason of ErrorInfo, where the tenant is at a limit:
  // TENANT_REQUESTS, TENANT_TOKENS or TENANT_STREAMS. Tokens are charged when they are used, so a
  // tenant may owe what its running requests used; it gets nothing new until that is made up for.
  absl::StatusOr<Use> Begin(const Caller& caller, absl::Time now);
  // Whether Begin would refuse now, as it does; nothing is taken.
  absl::Status Check(const Caller& caller, absl::Time now);
  // A request that is no stream. TENANT_REQUESTS as above.
  absl::Status CountRequest(const Caller& caller, absl::Time now);

 private:
  struct Account {
    TokenBucket requests, tokens;
    uint32_t streams = 0;
    Counter requests_total, tokens_total;
  };

  Account& AccountOf(const Caller& caller, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there is room for another stream and its request.
  absl::Status CheckStream(const Caller& caller, Account& account, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRequests(const Caller& caller, Account& account, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void TakeRequest(Account& account, absl::Time now);
  absl::Status Refuse(const Caller& caller, const char* reason, const std::string& why,
                      absl::Duration wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Metrics& metrics_;
  absl::Mutex mutex_;
  // By name. An account with a stream stays; with many others those go that are as good as new.
  std::map<std::string, Account> accounts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
