// What a worker counts: its engine's statistics and its transfers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
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

  // One transfer that is counted as under way until this is destroyed. Movable.
  class InFlight {
   public:
    explicit InFlight(WorkerMetrics& metrics) : count_(&metrics.inflight_) { ++*count_; }
    InFlight(InFlight&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
    InFlight& operator=(InFlight&& other) noexcept {
      std::swap(count_, other.count_);
      return *this;
    }
    ~InFlight() {
      if (count_ != nullptr) --*count_;
    }

   private:
    std::atomic<int64_t>* count_;
  };

  // A transfer that was committed.
  struct Transfer {
    absl::Duration duration;  // first byte -> commit
    uint64_t bytes = 0;       // of payload
    // Known to the sender.
    absl::Duration exposed = {};  // last chunk computed -> commit answered
    uint64_t bytes_saved = 0;     // the receiver held them
    uint64_t messages = 0;
  };

  void TransferBytes(uint64_t bytes);  // of payload
  void BytesResent(uint64_t bytes);    // of them, what had been sent before
  void TransferDone(const Transfer& transfer);
  // Counted by the kind of its code. CANCELLED is none: nobody wanted the transfer any more.
  void TransferFailed(const absl::Status& status);
  // One sequence that ended here.
  void SequenceDone(absl::Duration queue, absl::Duration prefill, absl::Duration decode);

 private:
  std::atomic<int64_t> inflight_ = 0;
  std::map<std::string, Counter> failures_;  // all reasons, from the beginning
  Counter bytes_;
  Histogram transfer_duration_;
  Histogram transfer_bytes_;
  Histogram queue_;
  Histogram prefill_;
  Histogram decode_;
  // Of a sender.
  std::optional<Histogram> exposed_;
  std::optional<Counter> bytes_saved_, bytes_resent_, messages_;
};

}  // namespace baton
