#include "common/access/audit_log.h"

#include <utility>

#include "common/base/log.h"

namespace baton {

void AuditLog::Refused(const Refusal& refusal, absl::Time now) {
  uint64_t left_out = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (!rate_.Take(now)) {
      ++left_out_;
      return;
    }
    left_out = std::exchange(left_out_, 0);
  }
  LogWarning("audit: refused method='{}' peer='{}' address='{}' reason='{}' left_out={}",
             LogSafe(refusal.method), LogSafe(refusal.peer), LogSafe(refusal.address),
             LogSafe(refusal.reason), left_out);
}

}  // namespace baton
