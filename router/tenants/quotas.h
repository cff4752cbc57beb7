// The declared tenants' use of their quotas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/base/token_bucket.h"
#include "common/net/metrics.h"
#include "router/tenants/caller.h"

namespace baton {

// Thread-safe. Outlives its uses. Callers of tenants that the keys file does not declare are not
// limited and not counted.
class Quotas {
  struct Account;

 public:
  // What one request asks for. A client that sends a list of prompts sends a request for each.
  struct Ask {
    uint32_t streams = 1;  // sequences that are generated: its choices. At least 1
    uint64_t tokens = 0;   // the most that prompt and outputs may come to, or an estimate
  };

  // One request, from its admission to its end. It gives its streams back, and of the tokens that
  // were reserved for it those that it did not use.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept { *this = std::move(other); }
    Use& operator=(Use&& other) noexcept {
      std::swap(quotas_, other.quotas_);
      std::swap(account_, other.account_);
      std::swap(streams_, other.streams_);
      std::swap(reserved_, other.reserved_);
      std::swap(used_, other.used_);
      return *this;
    }
    ~Use() { End(); }

    // The request has used this many tokens by now, of prompt and outputs. What exceeds the
    // reservation is charged at once.
    void ChargeUpTo(uint64_t tokens, absl::Time now);
    void End();

   private:
    friend class Quotas;
    Quotas* quotas_ = nullptr;
    Account* account_ = nullptr;
    uint32_t streams_ = 0;
    double reserved_ = 0;  // tokens that were charged at its begin
    uint64_t used_ = 0;    // tokens
  };

  // Borrows `metrics`, whose labels name declared tenants only.
  explicit Quotas(Metrics& metrics) : metrics_(metrics) {}

  // A use for each of the requests that one client sends together, or for none of them. Takes their
  // streams, and charges their tokens, of each at most what the tenant may use in a minute.
  // RESOURCE_EXHAUSTED with RetryInfo and a reason of ErrorInfo if the tenant is at a limit:
  // TENANT_REQUESTS, TENANT_TOKENS or TENANT_STREAMS. A tenant whose running requests use more than
  // was reserved owes it, and gets nothing new until that is made up for. INVALID_ARGUMENT with the
  // same reasons names the field of a GenerateRequest if the requests alone exceed a limit, so that
  // they would be refused at any time.
  absl::StatusOr<std::vector<Use>> Begin(const Caller& caller, absl::Span<const Ask> asks,
                                         absl::Time now);
  // Returns what Begin would return now for one request of one stream. Takes nothing.
  absl::Status Check(const Caller& caller, absl::Time now);
  // Counts a request that is no stream. TENANT_REQUESTS as above.
  absl::Status CountRequest(const Caller& caller, absl::Time now);
  // The same for a request that has a text tokenised. TENANT_TOKENS too.
  absl::Status CountTokenizing(const Caller& caller, absl::Time now);
  // Return what CountRequest and CountTokenizing would return now. They take nothing.
  absl::Status CheckRequest(const Caller& caller, absl::Time now);
  absl::Status CheckTokenizing(const Caller& caller, absl::Time now);
  // Charges tokens of a text that was tokenised and is not generated from: at most what the tenant
  // may use in a minute.
  void ChargeText(const Caller& caller, uint64_t tokens, absl::Time now);

 private:
  struct Account {
    TokenBucket requests, tokens;
    uint64_t streams = 0;
    Counter requests_total, tokens_total;
  };

  Account& AccountOf(const Caller& caller, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the requests would fit if the tenant had nothing else.
  absl::Status CheckAlone(const Caller& caller, absl::Span<const Ask> asks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there is room for that many requests and their streams. REQUIRES: CheckAlone is OK.
  absl::Status CheckRoom(const Caller& caller, Account& account, absl::Span<const Ask> asks,
                         absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the tenant may send `requests` requests now whose texts are tokenised.
  absl::Status CheckText(const Caller& caller, Account& account, size_t requests, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckTokens(const Caller& caller, Account& account, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRequests(const Caller& caller, Account& account, size_t requests,
                             absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void TakeRequest(Account& account, absl::Time now);
  absl::Status Refuse(const Caller& caller, const char* reason, const std::string& why,
                      absl::Duration wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Refuses requests that ask for more than the tenant may ever have.
  absl::Status RefuseField(const Caller& caller, const char* reason, const char* field,
                           const std::string& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountRefusal(const Caller& caller, const char* reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Metrics& metrics_;
  absl::Mutex mutex_;
  // By name. An account with a stream stays; with many others those go that are as good as new.
  std::map<std::string, Account> accounts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
