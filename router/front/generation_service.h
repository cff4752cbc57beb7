// The public gRPC service: identifies the caller and passes the request on to the intake.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "baton/v1/generation.grpc.pb.h"
#include "common/net/unread_bytes.h"
#include "common/rpc/receiving_service.h"
#include "router/front/intake.h"

namespace baton {

// Thread-safe, as gRPC calls it from its own threads. Borrows `intake` and all of `parts`.
class GenerationServiceImpl final : public ReceivingService<v1::GenerationService> {
 public:
  GenerationServiceImpl(Intake& intake, const Intake::Parts& parts);

 private:
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, std::unique_ptr<Received<v1::GenerateRequest>> request);
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     std::unique_ptr<Received<v1::TokenizeRequest>> request,
                                     v1::TokenizeResponse* response);
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       std::unique_ptr<Received<v1::DetokenizeRequest>> request,
                                       v1::DetokenizeResponse* response);
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       std::unique_ptr<Received<v1::ListModelsRequest>> request,
                                       v1::ListModelsResponse* response);

  // The entry of a call in the access log; may be null.
  using Entry = std::shared_ptr<AccessEntry>;

  Entry NewEntry(absl::string_view method) const;
  // Returns the caller of `method` and records it in `access`.
  absl::StatusOr<Caller> Identify(const grpc::CallbackServerContext& context,
                                  absl::string_view method, const Entry& access);
  // Both set `caller` as soon as it is identified.
  absl::StatusOr<Intake::Place> LetIn(const grpc::CallbackServerContext& context,
                                      const Received<v1::GenerateRequest>& request,
                                      const Entry& access, Caller& caller);
  // Lets in a request of `method` that is answered at once, and counts it.
  absl::Status LetIn(const grpc::CallbackServerContext& context, absl::string_view method,
                     const Entry& access, Caller& caller);
  // Ends a refused call, at once or later. The request's message is freed before.
  void Refuse(const Caller& caller, const absl::Status& status, const Entry& access,
              grpc::ServerUnaryReactor* reactor);
  // Validates the request, lets it in and runs `answer` on the pool, because tokenising would block
  // gRPC's threads for too long. Until then the message counts towards the waiting bytes. `cost` is
  // that of the pool's job.
  template <typename Request>
  grpc::ServerUnaryReactor* AnswerOnPool(
      absl::string_view method, const grpc::CallbackServerContext& context,
      std::unique_ptr<Received<Request>> request, uint64_t cost,
      const google::protobuf::Message* response,
      std::function<absl::Status(const Request&, const Caller&)> answer);

  Intake& intake_;
  const Intake::Parts parts_;
  UnreadBytes unread_bytes_;  // bytes of long responses that clients have not read yet
};

}  // namespace baton
