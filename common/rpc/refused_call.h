// A call that a server answers with nothing but a status.
#pragma once

#include "absl/status/status.h"

#include "common/rpc/status.h"

namespace baton {

// `Reactor` is the call's kind: grpc::ServerWriteReactor<...> or grpc::ServerBidiReactor<...>. To
// be made with new, and returned to gRPC, which ends it; then it deletes itself.
template <typename Reactor>
class RefusedCall final : public Reactor {
 public:
  // Ends when End is called, once.
  RefusedCall() = default;
  explicit RefusedCall(const absl::Status& status) { End(status); }
  void End(const absl::Status& status) { this->Finish(ToGrpcStatus(status)); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace baton
