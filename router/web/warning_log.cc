#include "router/web/warning_log.h"

#include "common/base/log.h"

namespace baton {

bool WarningLog::Log(const std::string& request_id, const std::string& warning) {
  {
    absl::MutexLock lock(&mutex_);
    if (logged_.size() >= kMaxWarnings || !logged_.insert(warning).second) return false;
  }
  LogWarning("request {}: {}; later requests of this kind are not logged", LogSafe(request_id),
             warning);
  return true;
}

}  // namespace baton
