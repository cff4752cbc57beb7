// A client's Generate stream over gRPC's callback API.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

#include "baton/v1/generation.pb.h"
#include "common/base/clock.h"
#include "common/rpc/receiving_service.h"
#include "common/rpc/status.h"
#include "router/access_log/access_entry.h"
#include "router/calls/client_call.h"

namespace baton {

// The reactor that the service returns to gRPC for a call that was admitted. Owned by its
// ClientCall; owns the call's request.
class GrpcClientWriter final : public ClientWriter,
                               public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  // `access`: the call's entry of the access log, or null.
  GrpcClientWriter(grpc::CallbackServerContext* context,
                   std::unique_ptr<const Received<v1::GenerateRequest>> request,
                   std::shared_ptr<AccessEntry> access)
      : context_(context), request_(std::move(request)), access_(std::move(access)) {}

  const v1::GenerateRequest& request() const { return request_->message; }

  void Attach(ClientCall& call) override { call_ = &call; }
  void StartWrite(const v1::GenerateResponse* response) override {
    ServerWriteReactor::StartWrite(response);
  }
  void Finish(const absl::Status& status) override {
    if (access_ != nullptr) access_->Answered(status);
    ServerWriteReactor::Finish(ToGrpcStatus(status));
  }
  void Cancel() override { context_->TryCancel(); }

 private:
  void OnWriteDone(bool ok) override { call_->OnWriteDone(ok); }
  void OnCancel() override { call_->OnCancel(); }
  void OnDone() override {
    if (access_ != nullptr) access_->Ended(SteadyNow());
    call_->OnDone();
  }

  grpc::CallbackServerContext* const context_;
  const std::unique_ptr<const Received<v1::GenerateRequest>> request_;
  const std::shared_ptr<AccessEntry> access_;
  ClientCall* call_ = nullptr;
};

}  // namespace baton
