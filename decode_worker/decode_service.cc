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
    : engine_(engine), registry_(registry), options_(options) {
  Add("Decode", &DecodeService::Decode);
}

grpc::ServerBidiReactor<Received<DecodeRequest>, DecodeResponse>* DecodeService::Decode(
    grpc::CallbackServerContext*) {
  if (draining_) return new RefusedDecode(DrainingStatus(options_.worker_name, kStageQueue));
  if (absl::Status failure = BATON_FAILPOINT_STATUS("decode.before_call"); !failure.ok()) {
    return new RefusedDecode(failure);
  }
  if (calls_->fetch_add(1) >= static_cast<int>(options_.max_calls)) {
    calls_->fetch_sub(1);
    return new RefusedDecode(WorkerFullStatus("too many calls on this decode worker",
                                              options_.worker_name, kStageQueue));
  }
  const auto call = std::make_shared<DecodeCall>(engine_, registry_, pushes_, options_,
                                                 [calls = calls_] { calls->fetch_sub(1); });
  call->Start();
  return call.get();
}

}  // namespace baton
