#include "router/tenants/quotas.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr double kSecondsPerMinute = 60;
constexpr double kUnlimited = 1e15;  // a second
constexpr absl::Duration kMinWait = absl::Milliseconds(100);
constexpr absl::Duration kStreamWait = absl::Seconds(1);  // nobody knows when a stream will end

}  // namespace

absl::StatusOr<Quotas::Use> Quotas::Begin(const Caller& caller, absl::Time now) {
  Use use;
  if (!caller.declared) return use;
  absl::MutexLock lock(&mutex_);
  Account& account = AccountOf(caller, now);
  if (absl::Status status = CheckStream(caller, account, now); !status.ok()) return status;
  TakeRequest(account, now);
  ++account.streams;
  use.quotas_ = this;
  use.account_ = &account;
  return use;
}

absl::Status Quotas::Check(const Caller& caller, absl::Time now) {
  if (!caller.declared) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  return CheckStream(caller, AccountOf(caller, now), now);
}

absl::Status Quotas::CountRequest(const Caller& caller, absl::Time now) {
  if (!caller.declared) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  Account& account = AccountOf(caller, now);
  if (absl::Status status = CheckRequests(caller, account, now); !status.ok()) return status;
  TakeRequest(account, now);
  return absl::OkStatus();
}

absl::Status Quotas::CheckStream(const Caller& caller, Account& account, absl::Time now) {
  const uint32_t streams = caller.limits.streams;
  if (streams > 0 && account.streams >= streams) {
    return Refuse(caller, "TENANT_STREAMS", absl::StrCat(streams, " answers at a time"),
                  kStreamWait);
  }
  const absl::Duration wait = account.tokens.Until(1, now);
  if (wait > absl::ZeroDuration()) {
    return Refuse(caller, "TENANT_TOKENS",
                  absl::StrCat(caller.limits.tokens_per_minute, " tokens a minute"), wait);
  }
  return CheckRequests(caller, account, now);
}

absl::Status Quotas::CheckRequests(const Caller& caller, Account& account, absl::Time now) {
  const absl::Duration wait = account.requests.Until(1, now);
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  return Refuse(caller, "TENANT_REQUESTS",
                absl::StrCat(caller.limits.requests_per_second, " requests a second"), wait);
}

void Quotas::TakeRequest(Account& account, absl::Time now) {
  account.requests.Take(1, now);
  account.requests_total.Add();
}

Quotas::Account& Quotas::AccountOf(const Caller& caller, absl::Time now) {
  if (accounts_.size() > kMaxTenants) {
    for (auto it = accounts_.begin(); it != accounts_.end();) {
      Account& old = it->second;
      const bool as_new = old.streams == 0 && old.requests.Full(now) && old.tokens.Full(now);
      it = as_new ? accounts_.erase(it) : std::next(it);
    }
  }
  const Tenant& limits = caller.limits;
  const double requests = limits.requests_per_second > 0 ? limits.requests_per_second : kUnlimited;
  const double burst = std::max(requests, 1.0);
  const double tokens = limits.tokens_per_minute > 0 ? limits.tokens_per_minute : kUnlimited;
  const auto found = accounts_.find(caller.tenant);
  if (found != accounts_.end()) {
    found->second.requests.SetRate(requests, burst, now);
    found->second.tokens.SetRate(tokens / kSecondsPerMinute, tokens, now);
    return found->second;
  }
  const MetricLabels labels = {{"tenant", caller.tenant}};
  const Account account{
      .requests = TokenBucket(requests, burst),
      .tokens = TokenBucket(tokens / kSecondsPerMinute, tokens),
      .requests_total = metrics_.AddCounter("baton_tenant_requests_total",
                                            "Requests of a tenant within its limits.", labels),
      .tokens_total = metrics_.AddCounter("baton_tenant_tokens_total",
                                          "Tokens of a tenant's prompts and outputs.", labels)};
  return accounts_.emplace(caller.tenant, account).first->second;
}

absl::Status Quotas::Refuse(const Caller& caller, const char* reason, const std::string& why,
                            absl::Duration wait) {
  metrics_
      .AddCounter("baton_tenant_refusals_total", "Requests of a tenant that is at a limit.",
                  {{"tenant", caller.tenant}, {"reason", reason}})
      .Add();
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("tenant '", caller.tenant, "' is at its limit of ", why, "; try again later"));
  status = WithErrorInfo(std::move(status), {.reason = reason, .stage = kStageQueue});
  status = WithRetryInfo(std::move(status), std::max(wait, kMinWait));
  return WithQuotaFailure(std::move(status), absl::StrCat("tenant ", caller.tenant), why);
}

void Quotas::Use::ChargeUpTo(uint64_t tokens, absl::Time now) {
  if (account_ == nullptr || tokens <= charged_) return;
  const auto more = static_cast<double>(tokens - charged_);
  charged_ = tokens;
  absl::MutexLock lock(&quotas_->mutex_);
  account_->tokens.Take(more, now);
  account_->tokens_total.Add(more);
}

void Quotas::Use::End() {
  Account* account = std::exchange(account_, nullptr);
  if (account == nullptr) return;
  absl::MutexLock lock(&quotas_->mutex_);
  --account->streams;
}

}  // namespace baton
