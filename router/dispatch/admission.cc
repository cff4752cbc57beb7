#include "router/dispatch/admission.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "router/request/errors.h"

namespace baton {
namespace {

// A tenant may hold this many times the free places: a lone one up to eight ninths of the queue.
constexpr uint32_t kTenantShare = 8;
// The part of its time limit that a request may be predicted to wait: predictions are rough, and a
// request that is refused after waiting has waited for nothing.
constexpr double kSafeShare = 0.8;
// The wait must also be shorter than its limit by this: workers often stand still for a moment.
constexpr absl::Duration kSafeMargin = absl::Milliseconds(100);
constexpr absl::Duration kLongestWait = absl::Hours(1);  // the longest prediction
constexpr double kOutputMemory = 32;                     // requests in the mean of the output

// A hint that a client can pass on to its operator: the flag that bounds the queue, with its value.
std::string MostRequests(const Admission::Limits& limits) {
  return absl::StrCat("--max-waiting-requests is ", limits.requests);
}
std::string MostBytes(const Admission::Limits& limits) {
  return absl::StrCat("--max-waiting-bytes is ", limits.bytes);
}

}  // namespace

absl::StatusOr<Admission::Ticket> Admission::Admit(Newcomer newcomer, absl::Time now) {
  newcomer.tokens = std::max<uint64_t>(newcomer.tokens, 1);
  absl::MutexLock lock(&mutex_);
  if (absl::Status status = CheckRoom(newcomer, now); !status.ok()) return status;
  ++requests_;
  bytes_ += newcomer.bytes;
  for (const Owner& owner : OwnersOf(newcomer)) {
    Part& part = parts_of_[owner];
    ++part.requests;
    part.bytes += newcomer.bytes;
  }
  backlog_.Add(newcomer.priority, {newcomer.tenant, newcomer.user}, newcomer.tokens);
  return Ticket(this, std::move(newcomer));
}

absl::Status Admission::Body::Grow(uint64_t bytes, absl::Time now) {
  absl::MutexLock lock(&admission_->mutex_);
  if (absl::Status status = admission_->CheckBody(*this, bytes, now); !status.ok()) return status;
  bytes_ += bytes;
  admission_->bytes_ += bytes;
  if (!tenant_.empty()) admission_->parts_of_[{tenant_, std::nullopt}].bytes += bytes;
  return absl::OkStatus();
}

void Admission::Body::Release() {
  Admission* const admission = std::exchange(admission_, nullptr);
  if (admission == nullptr) return;
  absl::MutexLock lock(&admission->mutex_);
  admission->bytes_ -= bytes_;
  admission->GiveBack({tenant_, std::nullopt}, {.requests = 0, .bytes = bytes_});
}

absl::Status Admission::CheckBytes(uint64_t bytes, uint64_t own, absl::Time now) const {
  if (bytes == 0 || bytes_ == own || bytes_ + bytes <= limits_.bytes) return absl::OkStatus();
  return QueueFull(absl::StrCat(bytes_, " bytes of requests wait; ", MostBytes(limits_)),
                   Wait({}, now));
}

absl::Status Admission::CheckBody(const Body& body, uint64_t bytes, absl::Time now) const {
  if (absl::Status status = CheckBytes(bytes, body.bytes_, now); !status.ok()) return status;
  const auto tenant = parts_of_.find({body.tenant_, std::nullopt});
  if (bytes == 0 || bytes_ == body.bytes_ || tenant == parts_of_.end()) return absl::OkStatus();
  const uint64_t free_bytes = limits_.bytes - std::min(bytes_, limits_.bytes);
  if (tenant->second.bytes < kTenantShare * free_bytes) return absl::OkStatus();
  return QueueFull(
      absl::StrCat(tenant->second.bytes, " bytes of this tenant wait; ", MostBytes(limits_)),
      Wait({}, now));
}

void Admission::GiveBack(const Owner& owner, const Part& given) {
  const auto own = parts_of_.find(owner);
  if (own == parts_of_.end()) return;  // nothing was taken
  own->second.requests -= given.requests;
  own->second.bytes -= given.bytes;
  if (own->second.requests == 0 && own->second.bytes == 0) parts_of_.erase(own);
}

std::vector<Admission::Owner> Admission::OwnersOf(const Newcomer& newcomer) {
  std::vector<Owner> owners = {{newcomer.tenant, newcomer.user}};
  if (!newcomer.tenant.empty()) owners.push_back({newcomer.tenant, std::nullopt});
  return owners;
}

absl::Status Admission::CheckRoom(const Newcomer& newcomer, absl::Time now) const {
  const absl::Duration wait = Wait(newcomer, now);
  if (requests_ >= limits_.requests) {
    return QueueFull(absl::StrCat(requests_, " requests wait; ", MostRequests(limits_)), wait);
  }
  if (absl::Status status = CheckBytes(newcomer.bytes, 0, now); !status.ok()) return status;
  const uint64_t free = limits_.requests - requests_;
  const uint64_t free_bytes = limits_.bytes - std::min(bytes_, limits_.bytes);
  for (const Owner& owner : OwnersOf(newcomer)) {
    const auto found = parts_of_.find(owner);
    if (found == parts_of_.end()) continue;
    const bool whole_tenant = !owner.second.has_value();
    const char* who = whole_tenant ? "tenant" : "user";
    const Part& part = found->second;
    if (part.requests >= kTenantShare * free) {
      return QueueFull(
          absl::StrCat(part.requests, " requests of this ", who, " wait; ", MostRequests(limits_)),
          wait);
    }
    if (whole_tenant && part.bytes >= kTenantShare * free_bytes) {
      return QueueFull(absl::StrCat(part.bytes, " bytes of this tenant wait; ", MostBytes(limits_)),
                       wait);
    }
  }
  const bool deadline_first = newcomer.time_left < limits_.max_queue_time;
  const absl::Duration most = std::min(newcomer.time_left, limits_.max_queue_time);
  const absl::Duration less = std::max(most - kSafeMargin, absl::ZeroDuration());
  if (wait <= std::min(kSafeShare * most, less)) return absl::OkStatus();
  return NoWorkerInTime(absl::StrCat("the wait is about ", InMilliseconds(wait), ", ",
                                     deadline_first ? "its deadline" : "--max-queue-time",
                                     " leaves ", InMilliseconds(most)),
                        wait);
}

absl::Duration Admission::Wait(const Newcomer& newcomer, absl::Time now) const {
  // While no request waits for a busy worker, the requests here are only passing through.
  const std::optional<double> rate = rate_.TokensPerSecond(now);
  if (!rate_.somebody_waits() || !rate.has_value()) return absl::ZeroDuration();
  const uint64_t ahead =
      backlog_.Ahead(newcomer.priority, {newcomer.tenant, newcomer.user}, newcomer.tokens);
  const absl::Duration until_next = rate_.UntilNext(now);
  return std::min(until_next + absl::Seconds(static_cast<double>(ahead) / *rate), kLongestWait);
}

void Admission::Ticket::SetTokens(uint64_t tokens) {
  if (!waits_) return;
  tokens = std::max<uint64_t>(tokens, 1);
  absl::MutexLock lock(&admission_->mutex_);
  Backlog& backlog = admission_->backlog_;
  const Sharer sharer{newcomer_.tenant, newcomer_.user};
  backlog.Remove(newcomer_.priority, sharer, newcomer_.tokens);
  backlog.Add(newcomer_.priority, sharer, tokens);
  newcomer_.tokens = tokens;
}

void Admission::Ticket::GotWorkers(absl::Time now) {
  if (!std::exchange(waits_, false)) return;
  absl::MutexLock lock(&admission_->mutex_);
  admission_->backlog_.Remove(newcomer_.priority, {newcomer_.tenant, newcomer_.user},
                              newcomer_.tokens);
  admission_->rate_.Left(newcomer_.tokens, now);
}

void Admission::Ticket::Release() {
  Admission* admission = std::exchange(admission_, nullptr);
  if (admission == nullptr) return;
  absl::MutexLock lock(&admission->mutex_);
  if (std::exchange(waits_, false)) {
    admission->backlog_.Remove(newcomer_.priority, {newcomer_.tenant, newcomer_.user},
                               newcomer_.tokens);
  }
  --admission->requests_;
  admission->bytes_ -= newcomer_.bytes;
  for (const Owner& owner : OwnersOf(newcomer_)) {
    admission->GiveBack(owner, {.requests = 1, .bytes = newcomer_.bytes});
  }
}

void Admission::SetWaiting(bool somebody_waits, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  rate_.SetWaiting(somebody_waits, now);
}

void Admission::SawOutput(uint32_t tokens_per_choice) {
  absl::MutexLock lock(&mutex_);
  typical_output_ += (tokens_per_choice - typical_output_) / kOutputMemory;
}

uint64_t Admission::ExpectedTokens(uint64_t prompt_tokens, uint32_t max_tokens,
                                   uint32_t choices) const {
  absl::MutexLock lock(&mutex_);
  const auto typical = static_cast<uint64_t>(std::ceil(typical_output_));
  return prompt_tokens + choices * std::min<uint64_t>(max_tokens, typical);
}

std::optional<double> Admission::TokensPerSecond(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  return rate_.TokensPerSecond(now);
}

absl::Duration Admission::PredictedWait(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  return Wait(Newcomer{}, now);
}

uint32_t Admission::waiting_requests() const {
  absl::MutexLock lock(&mutex_);
  return requests_;
}

uint64_t Admission::waiting_bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

uint64_t Admission::waiting_tokens() const {
  absl::MutexLock lock(&mutex_);
  return backlog_.tokens();
}

}  // namespace baton
