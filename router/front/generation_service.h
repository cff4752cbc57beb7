// The public service over gRPC: says who calls, and hands over; the work is done elsewhere.
#pragma once

#include "absl/status/status.h"

#include "baton/v1/generation.grpc.pb.h"
#include "common/rpc/receiving_service.h"
#include "router/front/intake.h"

namespace baton {

// Thread-safe, as gRPC calls it from its own threads. Borrows `intake` and all of `parts`.
class GenerationServiceImpl final : public ReceivingService<v1::GenerationService> {
 public:
  GenerationServiceImpl(Intake& intake, const Intake::Parts& parts);

 private:
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const Received<v1::GenerateRequest>* request);
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const Received<v1::TokenizeRequest>* request,
                                     v1::TokenizeResponse* response);
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const Received<v1::DetokenizeRequest>* request,
                                       v1::DetokenizeResponse* response);
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const Received<v1::ListModelsRequest>* request,
                                       v1::ListModelsResponse* response);

  absl::StatusOr<Intake::Place> LetIn(const grpc::CallbackServerContext& context,
                                      const Received<v1::GenerateRequest>& request);
  // Who calls `method`, which is answered at once. Counts the request.
  absl::Status LetIn(const grpc::CallbackServerContext& context, absl::string_view method);

  Intake& intake_;
  const Intake::Parts parts_;
};

}  // namespace baton
