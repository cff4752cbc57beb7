#include "router/access_log/access_entry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/base/clock.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr int kFirstErrorStatus = 400;

// As much of a value as decides what the line shows of it.
std::string Kept(absl::string_view text) {
  return std::string(text.substr(0, kMaxAccessValueBytes + 1));
}

}  // namespace

std::shared_ptr<AccessEntry> AccessEntry::Begin(AccessLog* log, Options options,
                                                absl::Time received) {
  if (log == nullptr) return nullptr;
  return std::make_shared<AccessEntry>(*log, std::move(options), received);
}

AccessEntry::AccessEntry(AccessLog& log, Options options, absl::Time received)
    : log_(log), options_(std::move(options)), received_(received) {
  record_.route = options_.route;
}

AccessEntry::~AccessEntry() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = SteadyNow();
  record_.ended = absl::Now();
  record_.total = ended_.value_or(now) - received_;
  if (record_.status.empty()) {
    record_.status = options_.unanswered;
    if (record_.error.empty()) record_.error = "CANCELLED";
  }
  if (options_.only_errors && !refused_ && record_.error.empty()) return;
  log_.Add(std::move(record_), now);
}

std::string AccessEntry::id() const {
  absl::MutexLock lock(&mutex_);
  return record_.id;
}

void AccessEntry::SetId(absl::string_view id) {
  absl::MutexLock lock(&mutex_);
  record_.id = std::string(id.substr(0, kMaxNameBytes));
}

void AccessEntry::Identified(const std::string& tenant, bool shown) {
  absl::MutexLock lock(&mutex_);
  record_.tenant = Kept(tenant);
  record_.identified = shown;
}

void AccessEntry::Worked(const AccessWork& work) {
  absl::MutexLock lock(&mutex_);
  if (!record_.work.has_value()) {
    record_.work = work;
    return;
  }
  AccessWork& sum = *record_.work;
  sum.prompt_tokens += work.prompt_tokens;
  sum.cached_tokens += work.cached_tokens;
  sum.output_tokens += work.output_tokens;
  sum.attempts = std::max(sum.attempts, work.attempts);
  if (!work.time_to_first_token.has_value()) return;
  sum.time_to_first_token = std::min(sum.time_to_first_token.value_or(absl::InfiniteDuration()),
                                     *work.time_to_first_token);
}

void AccessEntry::Failed(const absl::Status& status) {
  std::string error = ErrorReason(status);
  if (error.empty()) error = absl::StatusCodeToString(status.code());
  absl::MutexLock lock(&mutex_);
  if (record_.error.empty()) record_.error = Kept(error);
}

void AccessEntry::Answered(int http_status) {
  absl::MutexLock lock(&mutex_);
  record_.status = absl::StrCat(http_status);
  refused_ = http_status >= kFirstErrorStatus;
}

void AccessEntry::Answered(const absl::Status& status) {
  if (!status.ok()) Failed(status);
  absl::MutexLock lock(&mutex_);
  record_.status = absl::StatusCodeToString(status.code());
}

void AccessEntry::Ended(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (!ended_.has_value()) ended_ = now;
}

}  // namespace baton
