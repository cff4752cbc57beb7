// A small public service for tests of servers: it echoes, fails with details, and hangs.
#pragma once

#include <atomic>

#include "absl/time/clock.h"

#include "baton/v1/generation.grpc.pb.h"
#include "common/rpc/status.h"

namespace baton {

class TestService final : public v1::GenerationService::Service {
 public:
  // The call hangs until the client goes away or Stop() is called.
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* /*request*/,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    ++running_;
    writer->Write(v1::GenerateResponse());
    while (!context->IsCancelled() && !stopped_) absl::SleepFor(absl::Milliseconds(5));
    --running_;
    return ToGrpcStatus(absl::UnavailableError("stopped"));
  }
  grpc::Status Tokenize(grpc::ServerContext* /*context*/, const v1::TokenizeRequest* request,
                        v1::TokenizeResponse* response) override {
    response->set_max_model_len(static_cast<uint32_t>(request->text().size()));
    return grpc::Status::OK;
  }
  grpc::Status Detokenize(grpc::ServerContext* /*context*/,
                          const v1::DetokenizeRequest* /*request*/,
                          v1::DetokenizeResponse* /*response*/) override {
    return ToGrpcStatus(WithRetryInfo(
        WithErrorInfo(InvalidFields({{"token_ids", "must not be empty"}, {"model", "is unknown"}}),
                      {.reason = "TEST_REASON", .stage = kStageDecode, .worker = "d-1"}),
        absl::Milliseconds(1500)));
  }

  void Stop() { stopped_ = true; }
  int running() const { return running_; }

 private:
  std::atomic<bool> stopped_ = false;
  std::atomic<int> running_ = 0;
};

}  // namespace baton
