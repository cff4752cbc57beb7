#include "router/front/generation_service.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

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

// The methods as the audit log names them.
constexpr char kGenerate[] = "/baton.v1.GenerationService/Generate";
constexpr char kTokenize[] = "/baton.v1.GenerationService/Tokenize";
constexpr char kDetokenize[] = "/baton.v1.GenerationService/Detokenize";
constexpr char kListModels[] = "/baton.v1.GenerationService/ListModels";

// gRPC knows deadlines to the millisecond, rounded up: with that little left one has passed.
constexpr absl::Duration kNoTime = absl::Milliseconds(2);

// The client's deadline on our steady clock, or `otherwise` from now.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context, absl::Time now,
                      absl::Duration otherwise) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return now + otherwise;
  // gRPC's "none" is not always the last time point.
  const absl::Duration left = absl::FromChrono(deadline - std::chrono::system_clock::now());
  return left > absl::Hours(24 * 365) ? now + otherwise : now + left;
}

// An estimate, before the prompt is tokenised.
uint64_t AboutPromptTokens(const v1::GenerateRequest& request) {
  constexpr uint64_t kBytesPerToken = 4;
  switch (request.input_case()) {
    case v1::GenerateRequest::kPromptTokenIds:
      return static_cast<uint64_t>(request.prompt_token_ids().ids_size());
    case v1::GenerateRequest::kChat: {
      uint64_t bytes = 0;
      for (const v1::ChatMessage& message : request.chat().messages()) {
        bytes += message.content().size();
      }
      return bytes / kBytesPerToken;
    }
    default:
      return request.prompt().size() / kBytesPerToken;
  }
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
  if (status.ok() && !pool.TryRun(run)) status = QueueFull("the tokenizer's threads are busy");
  if (!status.ok()) reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

}  // namespace

GenerationServiceImpl::GenerationServiceImpl(const Parts& parts, absl::Duration deadline)
    : parts_(parts), deadline_(deadline) {
  Add("Generate", &GenerationServiceImpl::Generate);
  Add("Tokenize", &GenerationServiceImpl::Tokenize);
  Add("Detokenize", &GenerationServiceImpl::Detokenize);
  Add("ListModels", &GenerationServiceImpl::ListModels);
}

absl::Status GenerationServiceImpl::CheckMemory() const {
  return parts_.short_of_memory && parts_.short_of_memory() ? ShortOfMemory() : absl::OkStatus();
}

absl::Status GenerationServiceImpl::LetIn(const grpc::CallbackServerContext& context,
                                          absl::string_view method) {
  BATON_RETURN_IF_ERROR(CheckMemory());
  BATON_ASSIGN_OR_RETURN(const Caller caller, parts_.door.Identify(context, method));
  return parts_.quotas.CountRequest(caller, SteadyNow());
}

absl::StatusOr<GenerationServiceImpl::Admitted> GenerationServiceImpl::CheckAndAdmit(
    const grpc::CallbackServerContext& context, const Received<v1::GenerateRequest>& received,
    absl::Time now, absl::Time deadline) {
  if (refusing_.load()) return RouterDraining();
  BATON_RETURN_IF_ERROR(CheckMemory());
  BATON_ASSIGN_OR_RETURN(Caller caller, parts_.door.Identify(context, kGenerate));
  if (deadline <= now + kNoTime) return DeadlinePassed(kStageQueue);
  BATON_RETURN_IF_ERROR(received.status);
  BATON_ASSIGN_OR_RETURN(Quotas::Use use, parts_.quotas.Begin(caller, now));
  const v1::GenerateRequest& request = received.message;
  const v1::SamplingParams& sampling = request.sampling_params();
  const uint64_t tokens = parts_.admission.ExpectedTokens(
      AboutPromptTokens(request), sampling.has_max_tokens() ? sampling.max_tokens() : UINT32_MAX,
      std::min(std::max(sampling.n(), 1u), kMaxChoices));
  BATON_ASSIGN_OR_RETURN(Admission::Ticket ticket,
                         parts_.admission.Admit({.tenant = caller.tenant,
                                                 .user = request.user().substr(0, kMaxNameBytes),
                                                 .priority = caller.Clamp(request.priority()),
                                                 .bytes = request.ByteSizeLong(),
                                                 .tokens = tokens,
                                                 .time_left = deadline - now},
                                                now));
  BATON_RETURN_IF_ERROR(BATON_FAILPOINT_STATUS("router.before_admit"));
  BATON_RETURN_IF_ERROR(parts_.model.Validate(request));
  return Admitted{.caller = std::move(caller), .ticket = std::move(ticket), .use = std::move(use)};
}

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationServiceImpl::Generate(
    grpc::CallbackServerContext* context, const Received<v1::GenerateRequest>* request) {
  const absl::Time received = SteadyNow();
  const absl::Time deadline = DeadlineOf(*context, received, deadline_);
  absl::StatusOr<Admitted> admitted = CheckAndAdmit(*context, *request, received, deadline);
  if (!admitted.ok()) {
    parts_.metrics.Refused(admitted.status());
    return new RefusedCall<grpc::ServerWriteReactor<v1::GenerateResponse>>(admitted.status());
  }
  BATON_FAILPOINT("router.admitted");
  const uint64_t number = next_number_.fetch_add(1);
  auto writer = std::make_unique<GrpcClientWriter>(context);
  GrpcClientWriter* const reactor = writer.get();
  auto owned = std::make_unique<ClientCall>(parts_.loop, std::move(writer));
  ClientCall* const call = owned.get();
  parts_.loop.PostOrRun([this, number, owned = std::move(owned),
                         ticket = std::move(admitted->ticket),
                         use = std::move(admitted->use)]() mutable {
    parts_.runner.Arrived(number, std::move(owned), std::move(ticket), std::move(use));
  });
  // `request` and `call` live until the runner has heard of both the preparing's and the call's
  // end.
  const auto prepare = [this, number, call, request, received, deadline,
                        caller = std::move(admitted->caller)] {
    absl::StatusOr<RequestSpec> spec = absl::CancelledError("the client cancelled the call");
    if (!call->cancelled()) {
      spec = parts_.model.Prepare(request->message, parts_.fleet.Get(), parts_.disaggregation,
                                  RandomUint64(), parts_.pool.stopping());
      if (parts_.pool.stopping().load()) spec = RouterDraining();
    }
    if (spec.ok()) {
      spec->id_high = RandomUint64();
      spec->id_low = RandomUint64();
      spec->tenant = caller.tenant;
      spec->cache_salt = parts_.secret.SaltFor(caller, spec->cache_salt);
      spec->priority = caller.Clamp(spec->priority);
      spec->received = received;
      spec->deadline = deadline;
    }
    HandOver(number, *call, request->message, std::move(spec));
  };
  if (!parts_.pool.TryRun(prepare)) {
    parts_.loop.Post([this, number] {
      parts_.runner.Prepared(number, QueueFull("the tokenizer's threads are busy"),
                             parts_.model.token_table());
    });
  }
  return reactor;
}

void GenerationServiceImpl::HandOver(uint64_t number, const ClientCall& call,
                                     const v1::GenerateRequest& request,
                                     absl::StatusOr<RequestSpec> spec) {
  if (!spec.ok() || !request.has_response_format()) return Prepared(number, std::move(spec));
  absl::StatusOr<GrammarSpec> grammar = GrammarSpecOf(request.response_format());
  if (!grammar.ok()) return Prepared(number, grammar.status());
  GrammarPool::Ask ask{.spec = *std::move(grammar),
                       .tenant = spec->tenant,
                       .deadline = spec->deadline,
                       .cancelled = [&call] { return call.cancelled(); },
                       .done = nullptr};
  ask.done = [this, number, spec = *std::move(spec)](GrammarCache::Result compiled) mutable {
    if (!compiled.ok()) return Prepared(number, compiled.status());
    spec.grammar = *std::move(compiled);
    Prepared(number, std::move(spec));
  };
  parts_.grammars.Get(std::move(ask));
}

void GenerationServiceImpl::Prepared(uint64_t number, absl::StatusOr<RequestSpec> spec) {
  parts_.loop.PostOrRun([this, number, spec = std::move(spec)]() mutable {
    parts_.runner.Prepared(number, std::move(spec), parts_.model.token_table());
  });
}

grpc::ServerUnaryReactor* GenerationServiceImpl::Tokenize(
    grpc::CallbackServerContext* context, const Received<v1::TokenizeRequest>* request,
    v1::TokenizeResponse* response) {
  const absl::Status caller = LetIn(*context, kTokenize);
  const auto answer = [this, request, response] {
    BATON_ASSIGN_OR_RETURN(*response, parts_.model.Tokenize(request->message, parts_.fleet.Get()));
    return absl::OkStatus();
  };
  return AnswerOnPool(parts_.pool, parts_.model, *request, context, caller, answer);
}

grpc::ServerUnaryReactor* GenerationServiceImpl::Detokenize(
    grpc::CallbackServerContext* context, const Received<v1::DetokenizeRequest>* request,
    v1::DetokenizeResponse* response) {
  const absl::Status caller = LetIn(*context, kDetokenize);
  const auto answer = [this, request, response] {
    BATON_ASSIGN_OR_RETURN(*response, parts_.model.Detokenize(request->message));
    return absl::OkStatus();
  };
  return AnswerOnPool(parts_.pool, parts_.model, *request, context, caller, answer);
}

grpc::ServerUnaryReactor* GenerationServiceImpl::ListModels(
    grpc::CallbackServerContext* context, const Received<v1::ListModelsRequest>* request,
    v1::ListModelsResponse* response) {
  absl::Status status = LetIn(*context, kListModels);
  if (status.ok()) status = request->status;
  if (status.ok()) *response->add_models() = parts_.model.Card(parts_.fleet.Get());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

}  // namespace baton
