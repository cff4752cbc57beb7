#include "decode_worker/decode_service.h"

#include "common/base/failpoint.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/refused_call.h"
#include "common/rpc/status.h"
#include "decode_worker/decode_call.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;

using RefusedDecode = RefusedCall<grpc::ServerBidiReactor<Received<DecodeRequest>, DecodeResponse>>;

}  // namespace

DecodeService::DecodeService(Engine& engine, AttemptRegistry& registry,
                             const DecodeServiceOptions& options)
    : engine_(engine), registry_(registry), options_(options), silent_(options.silent) {
  Add("Decode", &DecodeService::Decode);
}

grpc::ServerBidiReactor<Received<DecodeRequest>, DecodeResponse>* DecodeService::Decode(
    grpc::CallbackServerContext*) {
  if (draining_) return new RefusedDecode(DrainingStatus(options_.worker_name, kStageQueue));
  if (absl::Status failure = BATON_FAILPOINT_STATUS("decode.before_call"); !failure.ok()) {
    return new RefusedDecode(failure);
  }
  calls_->open.fetch_add(1);
  const auto silent_id = std::make_shared<uint64_t>(0);
  const auto call = std::make_shared<DecodeCall>(
      engine_, registry_, pushes_, options_,
      DecodeCall::Callbacks{.heard =
                                [this, silent_id](bool message) {
                                  silent_.Spoke(*silent_id);
                                  return message ? TakePlace() : absl::OkStatus();
                                },
                            .done =
                                [calls = calls_](bool placed) {
                                  if (placed) calls->placed.fetch_sub(1);
                                  calls->open.fetch_sub(1);
                                }});
  *silent_id = silent_.Add([weak = call->weak_from_this()](const absl::Status& status) {
    if (const auto silent = weak.lock(); silent != nullptr) silent->End(status);
  });
  call->Start();
  return call.get();
}

absl::Status DecodeService::TakePlace() {
  if (calls_->placed.fetch_add(1) < static_cast<int>(options_.max_calls)) return absl::OkStatus();
  calls_->placed.fetch_sub(1);
  return WorkerFullStatus("too many calls on this decode worker", options_.worker_name,
                          kStageQueue);
}

}  // namespace baton
