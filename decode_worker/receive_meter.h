// Measures one push at the decode worker. Its mirror at the prefill worker is
// prefill_worker/send_meter.h.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/worker/worker_metrics.h"

namespace baton {

// Counts a push in the worker's metrics. Not thread-safe. Borrows the metrics; null: counts
// nothing.
class ReceiveMeter {
 public:
  explicit ReceiveMeter(WorkerMetrics* metrics) : metrics_(metrics) {}

  // The push is under way from Begin to End.
  void Begin() {
    if (metrics_ != nullptr) inflight_.emplace(*metrics_);
  }
  void End() { inflight_.reset(); }
  void Received(uint64_t payload_bytes, absl::Time now) {
    if (metrics_ != nullptr) metrics_->TransferBytes(payload_bytes);
    if (bytes_ == 0) first_ = now;
    bytes_ += payload_bytes;
  }
  void Committed(absl::Time now) {
    if (metrics_ != nullptr) metrics_->TransferDone({.duration = now - first_, .bytes = bytes_});
  }
  void Failed(const absl::Status& status) {
    if (metrics_ != nullptr) metrics_->TransferFailed(status);
  }

 private:
  WorkerMetrics* const metrics_;
  std::optional<WorkerMetrics::InFlight> inflight_;
  uint64_t bytes_ = 0;  // payload bytes
  absl::Time first_;    // time of the first message
};

}  // namespace baton
