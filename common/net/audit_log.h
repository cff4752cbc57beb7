// The log of refused callers: one line for each refusal, as long as there are not too many.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace baton {

// Thread-safe.
class AuditLog {
 public:
  // The most lines of one second. The next line tells how many were left out.
  static constexpr int kLinesPerSecond = 20;

  // `method` is what was called, or "connection" where the handshake failed; `peer` is what the
  // certificate says; `reason` is Baton's word. Text from outside may stand in all but the reason.
  void Refused(absl::string_view method, absl::string_view peer, absl::string_view reason,
               absl::Time now);

 private:
  absl::Mutex mutex_;
  absl::Time second_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // when it began
  int lines_ ABSL_GUARDED_BY(mutex_) = 0;                             // in this second
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;                     // since the last line
};

}  // namespace baton
