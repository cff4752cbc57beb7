// Audits what prefill workers push: a block of a share of the pushes is computed once more. Whoever
// pushed a block that proves to be wrong is quarantined.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

#include "baton/internal/v1/common.pb.h"
#include "baton/internal/v1/decode.pb.h"
#include "common/engine/engine.h"
#include "common/worker/worker_metrics.h"
#include "decode_worker/audit_chooser.h"

namespace baton {

// Names a pusher here and in what the router is told: the id in its certificate, or without TLS its
// worker's name. Empty: nobody is named.
std::string PusherKey(const internal::v1::Pusher& pusher);

// The quarantine lasts until this process ends: what was wrong once may be wrong again, and only a
// person can know better.
//
// Thread-safe. Borrows the engine and the metrics. Must live until the last audit that it ordered
// is done.
class KvAudit {
 public:
  // The most pushers in quarantine. When it is full everybody is in it: so many wrong ones are not
  // believed to be all.
  static constexpr size_t kMostQuarantined = 64;

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
    internal::v1::AttemptKey key;
    int start_token = 0;  // the first that was pushed
    int token_count = 0;  // up to the prompt's end
  };
  // The order to audit a block of it; none: the push is not audited. REQUIRES: its numerics are the
  // engine's, and give equal bits.
  std::optional<AuditOrder> Choose(const Push& push);

  // UNAVAILABLE with reason PUSHER_QUARANTINED where the pusher may not push any more.
  absl::Status CheckTrusted(const std::string& pusher) const;
  std::vector<std::string> quarantined() const;  // keys, ascending

 private:
  void Judge(const Push& push, const AuditResult& result);

  Engine& engine_;
  const Options options_;
  mutable absl::Mutex mutex_;
  AuditChooser chooser_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> quarantined_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
