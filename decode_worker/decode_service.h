// The decode worker's Decode service. A call goes: start, blocks reserved, KV pushed and committed,
// tokens.
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/status.h"

#include "baton/internal/v1/decode.grpc.pb.h"
#include "common/base/thread_group.h"
#include "common/engine/engine.h"
#include "common/rpc/receiving_service.h"
#include "common/rpc/silent_streams.h"
#include "decode_worker/attempt_registry.h"
#include "decode_worker/decode_service_options.h"

namespace baton {

// Thread-safe. Borrows all its arguments: they must live until calls() is 0. Owns the threads of
// the pushes, at most one for each call; the destructor joins them.
class DecodeService final : public ReceivingService<internal::v1::DecodeService> {
 public:
  DecodeService(Engine& engine, AttemptRegistry& registry, const DecodeServiceOptions& options);

  // Refuses new calls from here on, as draining.
  void Drain() { draining_ = true; }
  // Number of calls that still hold anything. A call counts until the engine has its blocks back.
  int calls() const { return calls_->open.load(); }

 private:
  grpc::ServerBidiReactor<Received<internal::v1::DecodeRequest>, internal::v1::DecodeResponse>*
  Decode(grpc::CallbackServerContext* context);
  absl::Status TakePlace();

  Engine& engine_;
  AttemptRegistry& registry_;
  const DecodeServiceOptions& options_;
  std::atomic<bool> draining_ = false;
  // Shared with the calls, because the last call may end on the engine's thread.
  struct Calls {
    std::atomic<int> open = 0;
    std::atomic<int> placed = 0;  // those that have sent a message
  };
  const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
  SilentStreams silent_;
  ThreadGroup pushes_;
};

}  // namespace baton
