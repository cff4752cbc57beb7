// Logs warnings about requests, each once.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace baton {

// Clients that cause a warning cause it with each request, so only the first is logged, and at most
// kMaxWarnings different ones. Thread-safe.
class WarningLog {
 public:
  static constexpr size_t kMaxWarnings = 64;

  // Logs the warning, printable ASCII, unless it was logged before. Returns whether it did.
  bool Log(const std::string& request_id, const std::string& warning);

 private:
  absl::Mutex mutex_;
  std::set<std::string> logged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
