// The public service over gRPC: says who calls, and hands over; the work is done elsewhere.
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
  // The caller of `method`, of which `access` is told.
  absl::StatusOr<Caller> Identify(const grpc::CallbackServerContext& context,
                                  absl::string_view method, const Entry& access);
  // Both set `caller` once they know who calls.
  absl::StatusOr<Intake::Place> LetIn(const grpc::CallbackServerContext& context,
                                      const Received<v1::GenerateRequest>& request,
                                      const Entry& access, Caller& caller);
  // Counts a request of `method`, which is answered at once.
  absl::Status LetIn(const grpc::CallbackServerContext& context, absl::string_view method,
                     const Entry& access, Caller& caller);
  // Ends a refused call, at once or later. The methods own their messages, so a refusal that is
  // sent later keeps none.
  void Refuse(const Caller& caller, const absl::Status& status, const Entry& access,
              grpc::ServerUnaryReactor* reactor);
  // Validates and lets in, then runs `answer` on the pool, since tokenising takes time that belongs
  // to gRPC's threads. Until then the message counts among the bytes that wait. `cost` as that of the
  // pool's jobs.
  template <typename Request>
  grpc::ServerUnaryReactor* AnswerOnPool(
      absl::string_view method, const grpc::CallbackServerContext& context,
      std::unique_ptr<Received<Request>> request, uint64_t cost,
      const google::protobuf::Message* response,
      std::function<absl::Status(const Request&, const Caller&)> answer);

  Intake& intake_;
  const Intake::Parts parts_;
  UnreadBytes unread_bytes_;  // of long responses that clients have not taken yet
};

}  // namespace baton
