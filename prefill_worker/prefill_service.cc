#include "prefill_worker/prefill_service.h"

#include <vector>

#include "common/base/failpoint.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/refused_call.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;

using RefusedPrefill = RefusedCall<grpc::ServerWriteReactor<PrefillResponse>>;

}  // namespace

PrefillService::PrefillService(Engine& engine, ChannelCache& channels,
                               const PrefillServiceOptions& options)
    : engine_(engine), channels_(channels), options_(options) {
  Add("Prefill", &PrefillService::Prefill);
}

grpc::ServerWriteReactor<PrefillResponse>* PrefillService::Prefill(
    grpc::CallbackServerContext*, std::unique_ptr<Received<PrefillRequest>> request) {
  if (draining_) return new RefusedPrefill(DrainingStatus(options_.worker_name, kStageQueue));
  if (!request->status.ok()) return new RefusedPrefill(request->status);
  if (absl::Status failure = BATON_FAILPOINT_STATUS("prefill.before_call"); !failure.ok()) {
    return new RefusedPrefill(failure);
  }
  std::shared_ptr<PrefillCall> call;
  {
    absl::MutexLock lock(&calls_->mutex);
    if (calls_->live.size() >= static_cast<size_t>(options_.max_calls)) {
      return new RefusedPrefill(WorkerFullStatus("too many calls on this prefill worker",
                                                 options_.worker_name, kStageQueue));
    }
    const uint64_t id = calls_->next_id++;
    call =
        std::make_shared<PrefillCall>(engine_, channels_, pushes_, options_, [calls = calls_, id] {
          absl::MutexLock inner(&calls->mutex);
          calls->live.erase(id);
        });
    calls_->live[id] = call;
  }
  call->Start(request->message);
  return call.get();
}

void PrefillService::EndAll(const absl::Status& status) {
  std::vector<std::shared_ptr<PrefillCall>> calls;  // destroyed without the lock
  {
    absl::MutexLock lock(&calls_->mutex);
    for (const auto& [id, call] : calls_->live) {
      if (auto held = call.lock()) calls.push_back(std::move(held));
    }
  }
  for (const auto& call : calls) call->End(status);
}

int PrefillService::calls() const {
  absl::MutexLock lock(&calls_->mutex);
  return static_cast<int>(calls_->live.size());
}

}  // namespace baton
