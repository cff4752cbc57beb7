// The metrics of a worker: its engine's statistics and its transfers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/engine/engine.h"
#include "common/net/metrics.h"
#include "common/worker/grammar_reader.h"

namespace baton {

// Thread-safe. Borrows the Metrics. `stats` is called at each scrape until the Metrics is
// destroyed.
class WorkerMetrics {
 public:
  enum class Direction { kSent, kReceived };

  WorkerMetrics(Metrics& metrics, const std::function<EngineStats()>& stats, Direction direction);

  // Counts one transfer as under way until it is destroyed. Movable.
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
    absl::Duration duration;  // from the first byte to the commit
    uint64_t bytes = 0;       // payload bytes
    // Only a sender knows these.
    absl::Duration exposed = {};  // from the last chunk computed to the answer to the commit
    uint64_t bytes_saved = 0;     // payload bytes that the receiver held already
    uint64_t messages = 0;
  };

  void TransferBytes(uint64_t bytes);  // adds payload bytes
  void BytesResent(uint64_t bytes);    // adds payload bytes that had been sent before
  void TransferDone(const Transfer& transfer);
  // Counts a failure by the kind of its code. CANCELLED does not count: the transfer was not
  // wanted any more.
  void TransferFailed(const absl::Status& status);
  // A sequence has ended here.
  void SequenceDone(absl::Duration queue, absl::Duration prefill, absl::Duration decode);
  // Only of a receiver. Whether received KV is audited; an audit is ordered, which has no result if
  // its sequence ends first; an audit is done: `result` is match, mismatch or skipped; so many
  // pushers are quarantined.
  void SetAuditEnabled(bool enabled) { audit_enabled_ = enabled; }
  void AuditOrdered() { ordered_audits_->Add(); }
  void AuditDone(const char* result) { audits_.at(result).Add(); }
  void Quarantined(size_t pushers) { quarantined_ = pushers; }
  // Only of a receiver. A push was refused for who made it.
  void PushRefused() { refused_pushes_->Add(); }

 private:
  void AddAuditMetrics(Metrics& metrics);

  std::atomic<int64_t> inflight_ = 0;
  std::map<std::string, Counter> failures_;  // a counter for each reason, made at the beginning
  std::map<std::string, Counter> audits_;    // by result; empty for Direction::kSent
  std::atomic<bool> audit_enabled_ = false;
  std::atomic<size_t> quarantined_ = 0;
  std::optional<Counter> ordered_audits_, refused_pushes_;  // set only for a receiver
  Counter bytes_;
  Histogram transfer_duration_;
  Histogram transfer_bytes_;
  Histogram queue_;
  Histogram prefill_;
  Histogram decode_;
  // Set only for Direction::kSent.
  std::optional<Histogram> exposed_;
  std::optional<Counter> bytes_saved_, bytes_resent_, messages_;
};

// Adds the memory of a KV cache of `blocks` blocks: in its own type, and what it would be in
// others.
void AddKvMemoryMetrics(Metrics& metrics, const KvLayout& layout, int blocks);

// Adds baton_config_info: the sizes within which this worker computes.
void AddConfigMetric(Metrics& metrics, const EngineOptions& options, const KvLayout& layout,
                     int blocks);

// Adds how often a grammar had been read before. Borrows `grammars` until the Metrics is destroyed.
void AddGrammarMetrics(Metrics& metrics, const GrammarReader& grammars);

// What a draft model takes in memory.
struct DraftMemory {
  uint64_t weight_bytes = 0;  // bytes of its tensors
  uint64_t cache_bytes = 0;   // bytes of its KV cache
};

// Adds the memory of a draft model and the blocks of its cache that are used. `stats`: see
// WorkerMetrics.
void AddDraftMetrics(Metrics& metrics, const DraftMemory& memory,
                     std::function<EngineStats()> stats);

// Such as "weights 94.4 MB, KV cache 12.3 MB".
std::string DraftMemoryText(const DraftMemory& memory);

}  // namespace baton
