// Audits the KV that prefill workers push: for a share of the pushes, recomputes one block. A
// worker that pushed a wrong block is quarantined.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

#include "baton/internal/v1/common.pb.h"
#include "common/engine/engine.h"
#include "common/worker/worker_metrics.h"
#include "decode_worker/audit_chooser.h"
#include "decode_worker/quarantine.h"

namespace baton {

// Thread-safe. Borrows the engine and the metrics. Must live until the last audit that it ordered
// has ended.
class KvAudit {
 public:
  struct Options {
    double share = 0;  // share of the pushes that are audited, 0 to 1
    // Returns 64 random bits that no pusher can predict.
    std::function<uint64_t()> random;
    WorkerMetrics* metrics = nullptr;       // null: nothing is counted
    std::function<void()> on_quarantine{};  // called on the engine's thread when the list has grown
  };
  KvAudit(Engine& engine, Options options);

  // A push that is to be committed.
  struct Push {
    std::string pusher;  // PusherKey
    internal::v1::AttemptKey key{};
    int start_token = 0;  // first token that was pushed
    int token_count = 0;  // number of tokens up to the prompt's end
  };
  // Returns the order to audit one of the push's blocks; nullopt if the push is not drawn, or none
  // of its blocks can be audited (FirstAuditableBlock). REQUIRES: the push has the engine's
  // numerics, and these give equal bits.
  std::optional<AuditOrder> Choose(const Push& push);

  // See Quarantine.
  absl::Status CheckTrusted(const std::string& pusher) const;
  std::vector<std::string> quarantined() const;  // keys, ascending

 private:
  void Judge(const Push& push, const AuditResult& result);

  Engine& engine_;
  const Options options_;
  mutable absl::Mutex mutex_;
  AuditChooser chooser_ ABSL_GUARDED_BY(mutex_);
  Quarantine quarantine_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
