// The decode worker's Decode service: Start, then blocks promised, pushed and committed, then
// tokens.
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/status.h"

#include "baton/internal/v1/decode.grpc.pb.h"
#include "common/engine/engine.h"
#include "common/rpc/receiving_service.h"
#include "decode_worker/attempt_registry.h"
#include "decode_worker/decode_service_options.h"

namespace baton {

// Thread-safe. Borrows everything, which must outlive calls() > 0.
class DecodeService final : public ReceivingService<internal::v1::DecodeService> {
 public:
  DecodeService(Engine& engine, AttemptRegistry& registry, const DecodeServiceOptions& options);

  // From here on new calls are refused as draining.
  void Drain() { draining_ = true; }
  // Calls that hold anything: their sequence's blocks count until the engine has them back.
  int calls() const { return calls_->load(); }

 private:
  grpc::ServerBidiReactor<Received<internal::v1::DecodeRequest>, internal::v1::DecodeResponse>*
  Decode(grpc::CallbackServerContext* context);

  Engine& engine_;
  AttemptRegistry& registry_;
  const DecodeServiceOptions& options_;
  std::atomic<bool> draining_ = false;
  // Shared with the calls: the last one may end on the engine's thread.
  const std::shared_ptr<std::atomic<int>> calls_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace baton
