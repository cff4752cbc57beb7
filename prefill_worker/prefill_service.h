// The prefill worker's service: one call for each prompt.
#pragma once

#include <atomic>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

#include "baton/internal/v1/prefill.grpc.pb.h"
#include "common/base/thread_group.h"
#include "common/engine/engine.h"
#include "common/rpc/receiving_service.h"
#include "prefill_worker/channel_cache.h"
#include "prefill_worker/prefill_call.h"

namespace baton {

// Thread-safe. Borrows all its arguments: they must live until calls() is 0. Owns the threads of
// the pushes, at most one for each call; the destructor joins them.
class PrefillService final : public ReceivingService<internal::v1::PrefillService> {
 public:
  PrefillService(Engine& engine, ChannelCache& channels, const PrefillServiceOptions& options);

  // Refuses new calls from here on, as draining.
  void Drain() { draining_ = true; }
  // Ends every running call with `status`.
  void EndAll(const absl::Status& status);
  // Number of calls that still hold anything. A call counts until the engine has its blocks back.
  int calls() const;

 private:
  grpc::ServerWriteReactor<internal::v1::PrefillResponse>* Prefill(
      grpc::CallbackServerContext* context,
      std::unique_ptr<Received<internal::v1::PrefillRequest>> request);

  // Shared with the calls, because the last call may end on any thread.
  struct Calls {
    absl::Mutex mutex;
    uint64_t next_id ABSL_GUARDED_BY(mutex) = 0;
    std::map<uint64_t, std::weak_ptr<PrefillCall>> live ABSL_GUARDED_BY(mutex);
  };

  Engine& engine_;
  ChannelCache& channels_;
  const PrefillServiceOptions& options_;
  std::atomic<bool> draining_ = false;
  const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
  ThreadGroup pushes_;
};

}  // namespace baton
