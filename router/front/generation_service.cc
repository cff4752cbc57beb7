#include "router/front/generation_service.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "common/access/access_table.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/rpc/limits.h"
#include "common/rpc/refused_call.h"
#include "common/rpc/status.h"
#include "router/calls/grpc_client_writer.h"
#include "router/front/response_format.h"
#include "router/request/errors.h"

namespace baton {
namespace {

// The client's deadline on our steady clock, or `otherwise` from now.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context, absl::Time now,
                      absl::Duration otherwise) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return now + otherwise;
  // gRPC's "none" is not always the last time point.
  const absl::Duration left = absl::FromChrono(deadline - std::chrono::system_clock::now());
  return left > absl::Hours(24 * 365) ? now + otherwise : now + left;
}

// The first value of that name, which lives as long as the call; empty: there is none.
absl::string_view MetadataOf(const grpc::CallbackServerContext& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return "";
  return {found->second.data(), found->second.size()};
}

// Validates, then runs `answer` on the pool, since tokenising takes time that belongs to gRPC's
// threads. `caller`: whether the caller was let in.
template <typename Request>
grpc::ServerUnaryReactor* AnswerOnPool(PreparingPool& pool, const ServedModel& model,
                                       const Received<Request>& request,
                                       grpc::CallbackServerContext* context,
                                       const absl::Status& caller,
                                       std::function<absl::Status()> answer) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::Status status = caller.ok() ? request.status : caller;
  if (status.ok()) status = model.Validate(request.message);
  const auto run = [reactor, answer = std::move(answer)] {
    reactor->Finish(ToGrpcStatus(answer()));
  };
  if (status.ok() && !pool.TryRun(run)) status = TokenizersBusy();
  if (!status.ok()) reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

}  // namespace

GenerationServiceImpl::GenerationServiceImpl(Intake& intake, const Intake::Parts& parts)
    : intake_(intake), parts_(parts) {
  Add("Generate", &GenerationServiceImpl::Generate);
  Add("Tokenize", &GenerationServiceImpl::Tokenize);
  Add("Detokenize", &GenerationServiceImpl::Detokenize);
  Add("ListModels", &GenerationServiceImpl::ListModels);
}

absl::Status GenerationServiceImpl::LetIn(const grpc::CallbackServerContext& context,
                                          absl::string_view method) {
  BATON_RETURN_IF_ERROR(intake_.CheckMemory());
  BATON_ASSIGN_OR_RETURN(const Caller caller, parts_.door.Identify(context, method));
  return parts_.quotas.CountRequest(caller, SteadyNow());
}

absl::StatusOr<Intake::Place> GenerationServiceImpl::LetIn(
    const grpc::CallbackServerContext& context, const Received<v1::GenerateRequest>& request) {
  const absl::Time received = SteadyNow();
  absl::Status status = intake_.CheckOpen();
  absl::StatusOr<Caller> caller =
      status.ok() ? parts_.door.Identify(context, kGenerateMethod) : status;
  status = caller.ok() ? request.status : caller.status();
  if (!status.ok()) {
    intake_.CountRefused(status);
    return status;
  }
  BATON_ASSIGN_OR_RETURN(std::vector<Intake::Place> places,
                         intake_.Admit(*caller, {&request.message}, received,
                                       DeadlineOf(context, received, intake_.default_deadline())));
  intake_.Trace({.parent = MetadataOf(context, kTraceParentHeader),
                 .state = MetadataOf(context, kTraceStateHeader)},
                places.front());
  return std::move(places.front());
}

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationServiceImpl::Generate(
    grpc::CallbackServerContext* context, const Received<v1::GenerateRequest>* request) {
  absl::StatusOr<Intake::Place> place = LetIn(*context, *request);
  if (!place.ok()) {
    return new RefusedCall<grpc::ServerWriteReactor<v1::GenerateResponse>>(place.status());
  }
  auto writer = std::make_unique<GrpcClientWriter>(context);
  GrpcClientWriter* const reactor = writer.get();
  intake_.Start(*std::move(place), request->message, std::move(writer));
  return reactor;
}

grpc::ServerUnaryReactor* GenerationServiceImpl::Tokenize(
    grpc::CallbackServerContext* context, const Received<v1::TokenizeRequest>* request,
    v1::TokenizeResponse* response) {
  const absl::Status caller = LetIn(*context, kTokenizeMethod);
  const auto answer = [this, request, response] {
    BATON_ASSIGN_OR_RETURN(*response, parts_.model.Tokenize(request->message, parts_.fleet.Get()));
    return absl::OkStatus();
  };
  return AnswerOnPool(parts_.pool, parts_.model, *request, context, caller, answer);
}

grpc::ServerUnaryReactor* GenerationServiceImpl::Detokenize(
    grpc::CallbackServerContext* context, const Received<v1::DetokenizeRequest>* request,
    v1::DetokenizeResponse* response) {
  const absl::Status caller = LetIn(*context, kDetokenizeMethod);
  const auto answer = [this, request, response] {
    BATON_ASSIGN_OR_RETURN(*response, parts_.model.Detokenize(request->message));
    return absl::OkStatus();
  };
  return AnswerOnPool(parts_.pool, parts_.model, *request, context, caller, answer);
}

grpc::ServerUnaryReactor* GenerationServiceImpl::ListModels(
    grpc::CallbackServerContext* context, const Received<v1::ListModelsRequest>* request,
    v1::ListModelsResponse* response) {
  absl::Status status = LetIn(*context, kListModelsMethod);
  if (status.ok()) status = request->status;
  if (status.ok()) *response->add_models() = parts_.model.Card(parts_.fleet.Get());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

}  // namespace baton
