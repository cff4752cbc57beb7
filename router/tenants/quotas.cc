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
constexpr absl::Duration kStreamWait = absl::Seconds(1);  // the end of a stream is unknown

// Requests that a tenant may send at once.
double BurstOf(const Tenant& limits) { return std::max(limits.requests_per_second, 1.0); }

// What is charged of `tokens` before they are used, or if they are not used at all: at most a
// minute's worth, so that no one request keeps a tenant waiting for longer.
double ChargeOf(const Tenant& limits, uint64_t tokens) {
  if (limits.tokens_per_minute == 0) return 0;
  return static_cast<double>(std::min<uint64_t>(tokens, limits.tokens_per_minute));
}

uint64_t StreamsOf(absl::Span<const Quotas::Ask> asks) {
  uint64_t streams = 0;
  for (const Quotas::Ask& ask : asks) streams += ask.streams;
  return streams;
}

}  // namespace

absl::StatusOr<std::vector<Quotas::Use>> Quotas::Begin(const Caller& caller,
                                                       absl::Span<const Ask> asks, absl::Time now) {
  std::vector<Use> uses(asks.size());
  if (!caller.declared) return uses;
  absl::MutexLock lock(&mutex_);
  Account& account = AccountOf(caller, now);
  if (absl::Status status = CheckAlone(caller, asks); !status.ok()) return status;
  if (absl::Status status = CheckRoom(caller, account, asks, now); !status.ok()) return status;
  for (size_t i = 0; i < asks.size(); ++i) {
    TakeRequest(account, now);
    account.streams += asks[i].streams;
    Use& use = uses[i];
    use.quotas_ = this;
    use.account_ = &account;
    use.streams_ = asks[i].streams;
    use.reserved_ = ChargeOf(caller.limits, asks[i].tokens);
    account.tokens.Take(use.reserved_, now);
  }
  return uses;
}

absl::Status Quotas::Check(const Caller& caller, absl::Time now) {
  if (!caller.declared) return absl::OkStatus();
  const Ask least;
  absl::MutexLock lock(&mutex_);
  return CheckRoom(caller, AccountOf(caller, now), absl::MakeConstSpan(&least, 1), now);
}

absl::Status Quotas::CheckRequest(const Caller& caller, absl::Time now) {
  if (!caller.declared) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  return CheckRequests(caller, AccountOf(caller, now), 1, now);
}

absl::Status Quotas::CheckTokenizing(const Caller& caller, absl::Time now) {
  if (!caller.declared) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  return CheckText(caller, AccountOf(caller, now), 1, now);
}

absl::Status Quotas::CountRequest(const Caller& caller, absl::Time now) {
  if (!caller.declared) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  Account& account = AccountOf(caller, now);
  if (absl::Status status = CheckRequests(caller, account, 1, now); !status.ok()) return status;
  TakeRequest(account, now);
  return absl::OkStatus();
}

absl::Status Quotas::CountTokenizing(const Caller& caller, absl::Time now) {
  if (!caller.declared) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  Account& account = AccountOf(caller, now);
  if (absl::Status status = CheckText(caller, account, 1, now); !status.ok()) return status;
  TakeRequest(account, now);
  return absl::OkStatus();
}

void Quotas::ChargeText(const Caller& caller, uint64_t tokens, absl::Time now) {
  if (!caller.declared || tokens == 0) return;
  absl::MutexLock lock(&mutex_);
  Account& account = AccountOf(caller, now);
  account.tokens.Take(ChargeOf(caller.limits, tokens), now);
  account.tokens_total.Add(static_cast<double>(tokens));
}

absl::Status Quotas::CheckAlone(const Caller& caller, absl::Span<const Ask> asks) {
  const Tenant& limits = caller.limits;
  const uint64_t streams = StreamsOf(asks);
  if (limits.streams > 0 && streams > limits.streams) {
    return RefuseField(
        caller, "TENANT_STREAMS", asks.size() == 1 ? "sampling_params.n" : "prompt",
        absl::StrCat("asks for ", streams, " answers at a time, tenant '", caller.tenant,
                     "' may have ", limits.streams, " (streams); ask for fewer at once"));
  }
  if (limits.requests_per_second > 0 && static_cast<double>(asks.size()) > BurstOf(limits)) {
    return RefuseField(
        caller, "TENANT_REQUESTS", "prompt",
        absl::StrCat("has ", asks.size(), " prompts, each of which is a request, tenant '",
                     caller.tenant, "' may send ", BurstOf(limits),
                     " at once (requests-per-second); send fewer at once"));
  }
  return absl::OkStatus();
}

absl::Status Quotas::CheckRoom(const Caller& caller, Account& account, absl::Span<const Ask> asks,
                               absl::Time now) {
  const uint32_t streams = caller.limits.streams;
  if (streams > 0 && account.streams + StreamsOf(asks) > streams) {
    return Refuse(caller, "TENANT_STREAMS", absl::StrCat(streams, " answers at a time"),
                  kStreamWait);
  }
  return CheckText(caller, account, asks.size(), now);
}

absl::Status Quotas::CheckText(const Caller& caller, Account& account, size_t requests,
                               absl::Time now) {
  if (absl::Status status = CheckTokens(caller, account, now); !status.ok()) return status;
  return CheckRequests(caller, account, requests, now);
}

absl::Status Quotas::CheckTokens(const Caller& caller, Account& account, absl::Time now) {
  const absl::Duration wait = account.tokens.Until(1, now);
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  return Refuse(caller, "TENANT_TOKENS",
                absl::StrCat(caller.limits.tokens_per_minute, " tokens a minute"), wait);
}

absl::Status Quotas::CheckRequests(const Caller& caller, Account& account, size_t requests,
                                   absl::Time now) {
  const absl::Duration wait = account.requests.Until(static_cast<double>(requests), now);
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
  const double burst = limits.requests_per_second > 0 ? BurstOf(limits) : kUnlimited;
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
  CountRefusal(caller, reason);
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("tenant '", caller.tenant, "' is at its limit of ", why, "; try again later"));
  status = WithErrorInfo(std::move(status), {.reason = reason, .stage = kStageQueue});
  status = WithRetryInfo(std::move(status), std::max(wait, kMinWait));
  return WithQuotaFailure(std::move(status), absl::StrCat("tenant ", caller.tenant), why);
}

absl::Status Quotas::RefuseField(const Caller& caller, const char* reason, const char* field,
                                 const std::string& what) {
  CountRefusal(caller, reason);
  return WithErrorInfo(InvalidField(field, what), {.reason = reason, .stage = kStageQueue});
}

void Quotas::CountRefusal(const Caller& caller, const char* reason) {
  metrics_
      .AddCounter("baton_tenant_refusals_total", "Requests of a tenant that is at a limit.",
                  {{"tenant", caller.tenant}, {"reason", reason}})
      .Add();
}

void Quotas::Use::ChargeUpTo(uint64_t tokens, absl::Time now) {
  if (account_ == nullptr || tokens <= used_) return;
  const double charged = std::max(reserved_, static_cast<double>(used_));
  absl::MutexLock lock(&quotas_->mutex_);
  account_->tokens.Take(std::max(static_cast<double>(tokens) - charged, 0.0), now);
  account_->tokens_total.Add(static_cast<double>(tokens - used_));
  used_ = tokens;
}

void Quotas::Use::End() {
  Account* account = std::exchange(account_, nullptr);
  if (account == nullptr) return;
  absl::MutexLock lock(&quotas_->mutex_);
  account->streams -= streams_;
  account->tokens.Give(std::max(reserved_ - static_cast<double>(used_), 0.0));
}

}  // namespace baton
