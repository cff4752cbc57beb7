// What a worker counts: its engine's statistics and its transfers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/engine/engine.h"
#include "common/rpc/metrics.h"

namespace baton {

// Thread-safe. Borrows the Metrics. `stats` is called at each scrape until the Metrics is
// destroyed.
class WorkerMetrics {
 public:
  enum class Direction { kSent, kReceived };

  WorkerMetrics(Metrics& metrics, std::function<EngineStats()> stats, Direction direction);

  void TransferBytes(uint64_t bytes);  // of payload, as it goes
  void TransferDone(absl::Duration duration, uint64_t bytes);
  // reason: a bounded set such as checksum, refused, lost, aborted.
  void TransferFailed(const std::string& reason);
  // One sequence that ended here.
  void SequenceDone(absl::Duration queue, absl::Duration prefill, absl::Duration decode);

 private:
  Metrics& metrics_;
  absl::Mutex mutex_;
  std::map<std::string, Counter> failures_ ABSL_GUARDED_BY(mutex_);
  Counter bytes_;
  Histogram transfer_duration_;
  Histogram transfer_bytes_;
  Histogram queue_;
  Histogram prefill_;
  Histogram decode_;
};

}  // namespace baton
