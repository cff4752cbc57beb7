// Audits what prefill workers push: a block of a share of the pushes is computed once more. Whoever
// pushed a block that proves to be wrong is quarantined.
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
// is done.
class KvAudit {
 public:
  struct Options {
    double share = 0;  // of the pushes; 0: none
    // 64 random bits that no pusher can foresee.
    std::function<uint64_t()> random;
    WorkerMetrics* metrics = nullptr;       // null: nothing is counted
    std::function<void()> on_quarantine{};  // the list has grown; called on the engine's thread
  };
  KvAudit(Engine& engine, Options options);

  // A push that is to be committed.
  struct Push {
    std::string pusher;  // PusherKey
    internal::v1::AttemptKey key{};
    int start_token = 0;  // the first that was pushed
    int token_count = 0;  // up to the prompt's end
  };
  // The order to audit a block of it; none: the push is not audited, by chance or because none of
  // its blocks can be (FirstAuditableBlock). REQUIRES: its numerics are the engine's, and give
  // equal bits.
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
