// The log of refused callers: one line of one form for each refusal, wherever it is, as long as
// there are not too many.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/base/line_rate.h"

namespace baton {

// Thread-safe.
class AuditLog {
 public:
  // The most lines of one second. The next line says how many were left out.
  static constexpr int kLinesPerSecond = LineRate::kPerSecond;

  // Text from outside may stand in all but the reason. Nothing secret may be in any.
  struct Refusal {
    absl::string_view method;   // called method, or "connection" if there was no call yet
    absl::string_view peer;     // name in the certificate or of the key; empty: unknown
    absl::string_view address;  // address of the caller; empty if gRPC does not know it
    absl::string_view reason;   // Baton's word
  };
  void Refused(const Refusal& refusal, absl::Time now);

 private:
  absl::Mutex mutex_;
  LineRate rate_ ABSL_GUARDED_BY(mutex_);
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;  // since the last line
};

}  // namespace baton
