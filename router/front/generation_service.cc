#include "router/front/generation_service.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "common/access/access_table.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/rpc/deadline.h"
#include "common/rpc/limits.h"
#include "common/rpc/refused_call.h"
#include "common/rpc/status.h"
#include "router/calls/grpc_client_writer.h"
#include "router/front/response_format.h"
#include "router/request/errors.h"

namespace baton {
namespace {

// The client's deadline on our steady clock; infinite if the client gave none.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context, absl::Time now) {
  return now + TimeUntil(context.raw_deadline());
}

// The first value of that name, which lives as long as the call; empty: there is none.
absl::string_view MetadataOf(const grpc::CallbackServerContext& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return "";
  return {found->second.data(), found->second.size()};
}

// Responses up to this size are sent whatever else is unread.
constexpr size_t kShortBytes = size_t{64} << 10;
// Memory of all longer responses that clients have not taken yet. HTTP has a bound of its own.
constexpr size_t kMaxUnreadBytes = size_t{64} << 20;

void NoteAnswer(const std::shared_ptr<AccessEntry>& access, const absl::Status& status) {
  if (access != nullptr) access->Answered(status);
}

// Answers a unary call, and counts a long response until the client has taken it. Deletes itself
// when gRPC is done with the call.
class CountedAnswer final : public grpc::ServerUnaryReactor {
 public:
  // `access`: the call's entry of the access log, or null.
  CountedAnswer(UnreadBytes& unread_bytes, std::shared_ptr<AccessEntry> access)
      : unread_(unread_bytes), access_(std::move(access)) {}

  // Ends the tenant's call with the response, or with an error if too many bytes are unread.
  void Answer(const google::protobuf::Message& response, const std::string& tenant) {
    const size_t bytes = response.SpaceUsedLong();
    unread_.SetTenant(tenant);
    if (bytes > kShortBytes && !unread_.Take(bytes)) {
      return End(ShortOfMemory(
          "the answers that this tenant or all clients leave unread take too much memory"));
    }
    End(absl::OkStatus());
  }
  // Ends the call.
  void End(const absl::Status& status) {
    NoteAnswer(access_, status);
    Finish(ToGrpcStatus(status));
  }

 private:
  void OnDone() override { delete this; }

  UnreadBytes::Part unread_;
  const std::shared_ptr<AccessEntry> access_;
};

}  // namespace

GenerationServiceImpl::GenerationServiceImpl(Intake& intake, const Intake::Parts& parts)
    : intake_(intake), parts_(parts), unread_bytes_(kMaxUnreadBytes) {
  Add("Generate", &GenerationServiceImpl::Generate);
  Add("Tokenize", &GenerationServiceImpl::Tokenize);
  Add("Detokenize", &GenerationServiceImpl::Detokenize);
  Add("ListModels", &GenerationServiceImpl::ListModels);
}

GenerationServiceImpl::Entry GenerationServiceImpl::NewEntry(absl::string_view method) const {
  return AccessEntry::Begin(parts_.access_log,
                            {.route = std::string(method), .unanswered = "CANCELLED"}, SteadyNow());
}

absl::StatusOr<Caller> GenerationServiceImpl::Identify(const grpc::CallbackServerContext& context,
                                                       absl::string_view method,
                                                       const Entry& access) {
  absl::StatusOr<Caller> caller = parts_.door.Identify(context, method);
  if (caller.ok() && access != nullptr) access->Identified(caller->tenant, caller->identified);
  return caller;
}

absl::Status GenerationServiceImpl::LetIn(const grpc::CallbackServerContext& context,
                                          absl::string_view method, const Entry& access,
                                          Caller& caller) {
  BATON_RETURN_IF_ERROR(intake_.CheckMemory());
  BATON_ASSIGN_OR_RETURN(caller, Identify(context, method, access));
  return method == kTokenizeMethod ? parts_.quotas.CountTokenizing(caller, SteadyNow())
                                   : parts_.quotas.CountRequest(caller, SteadyNow());
}

absl::StatusOr<Intake::Place> GenerationServiceImpl::LetIn(
    const grpc::CallbackServerContext& context, const Received<v1::GenerateRequest>& request,
    const Entry& access, Caller& caller) {
  const absl::Time received = SteadyNow();
  absl::Status status = intake_.CheckOpen();
  absl::StatusOr<Caller> known = status.ok() ? Identify(context, kGenerateMethod, access) : status;
  status = known.ok() ? request.status : known.status();
  if (!status.ok()) {
    intake_.CountRefused(status);
    return status;
  }
  caller = *std::move(known);
  BATON_ASSIGN_OR_RETURN(
      std::vector<Intake::Place> places,
      intake_.Admit(caller, {&request.message}, received, DeadlineOf(context, received)));
  intake_.Trace({.parent = MetadataOf(context, kTraceParentHeader),
                 .state = MetadataOf(context, kTraceStateHeader)},
                places.front());
  places.front().access = access;
  return std::move(places.front());
}

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationServiceImpl::Generate(
    grpc::CallbackServerContext* context, std::unique_ptr<Received<v1::GenerateRequest>> request) {
  Caller caller;
  Entry access = NewEntry(kGenerateMethod);
  if (access != nullptr && request->status.ok()) access->SetId(request->message.request_id());
  absl::StatusOr<Intake::Place> place = LetIn(*context, *request, access, caller);
  if (!place.ok()) {
    auto* const refused = new RefusedCall<grpc::ServerWriteReactor<v1::GenerateResponse>>();
    const absl::Status& status = place.status();
    parts_.refusals.Refuse(caller, status, [refused, status, access] {
      NoteAnswer(access, status);
      refused->End(status);
    });
    return refused;
  }
  auto writer = std::make_unique<GrpcClientWriter>(context, std::move(request), std::move(access));
  GrpcClientWriter* const reactor = writer.get();
  intake_.Start(*std::move(place), reactor->request(), std::move(writer));
  return reactor;
}

void GenerationServiceImpl::Refuse(const Caller& caller, const absl::Status& status,
                                   const Entry& access, grpc::ServerUnaryReactor* reactor) {
  parts_.refusals.Refuse(caller, status, [reactor, status, access] {
    NoteAnswer(access, status);
    reactor->Finish(ToGrpcStatus(status));
  });
}

template <typename Request>
grpc::ServerUnaryReactor* GenerationServiceImpl::AnswerOnPool(
    absl::string_view method, const grpc::CallbackServerContext& context,
    std::unique_ptr<Received<Request>> request, uint64_t cost,
    const google::protobuf::Message* response,
    std::function<absl::Status(const Request&, const Caller&)> answer) {
  const Entry access = NewEntry(method);
  auto* const reactor = new CountedAnswer(unread_bytes_, access);
  Caller caller;
  absl::Status status = LetIn(context, method, access, caller);
  if (status.ok()) status = request->status;
  if (status.ok()) status = parts_.model.Validate(request->message);
  Admission::Body waits = parts_.admission.NewBody(caller.tenant);
  if (status.ok()) status = waits.Grow(request->message.SpaceUsedLong(), SteadyNow());
  if (status.ok()) {
    PreparingPool::Job job{.tenant = caller.tenant,
                           .cost = cost,
                           .cancelled = [&context] { return context.IsCancelled(); },
                           .run = nullptr};
    job.run = [reactor, response, caller, answer = std::move(answer), waits = std::move(waits),
               request = std::move(request)](const absl::Status& may_run) {
      const absl::Status answered = may_run.ok() ? answer(request->message, caller) : may_run;
      answered.ok() ? reactor->Answer(*response, caller.tenant) : reactor->End(answered);
    };
    if (!parts_.pool.TryRun(std::move(job))) status = TokenizersBusy();
  }
  if (!status.ok()) Refuse(caller, status, access, reactor);
  return reactor;
}

grpc::ServerUnaryReactor* GenerationServiceImpl::Tokenize(
    grpc::CallbackServerContext* context, std::unique_ptr<Received<v1::TokenizeRequest>> request,
    v1::TokenizeResponse* response) {
  const uint64_t about = AboutTokens(request->message.text().size());
  const auto answer = [this, response, about](const v1::TokenizeRequest& asked,
                                              const Caller& caller) -> absl::Status {
    absl::StatusOr<v1::TokenizeResponse> made = parts_.model.Tokenize(asked, parts_.fleet.Get());
    const uint64_t tokens = made.ok() ? static_cast<uint64_t>(made->token_ids_size()) : about;
    parts_.quotas.ChargeText(caller, tokens, SteadyNow());
    BATON_RETURN_IF_ERROR(made.status());
    *response = *std::move(made);
    return absl::OkStatus();
  };
  return AnswerOnPool<v1::TokenizeRequest>(kTokenizeMethod, *context, std::move(request), about,
                                           response, answer);
}

grpc::ServerUnaryReactor* GenerationServiceImpl::Detokenize(
    grpc::CallbackServerContext* context, std::unique_ptr<Received<v1::DetokenizeRequest>> request,
    v1::DetokenizeResponse* response) {
  const auto answer = [this, response](const v1::DetokenizeRequest& asked,
                                       const Caller&) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(*response, parts_.model.Detokenize(asked));
    return absl::OkStatus();
  };
  const auto ids = static_cast<uint64_t>(request->message.token_ids_size());
  return AnswerOnPool<v1::DetokenizeRequest>(kDetokenizeMethod, *context, std::move(request), ids,
                                             response, answer);
}

grpc::ServerUnaryReactor* GenerationServiceImpl::ListModels(
    grpc::CallbackServerContext* context, std::unique_ptr<Received<v1::ListModelsRequest>> request,
    v1::ListModelsResponse* response) {
  const Entry access = NewEntry(kListModelsMethod);
  Caller caller;
  absl::Status status = LetIn(*context, kListModelsMethod, access, caller);
  if (status.ok()) status = request->status;
  if (status.ok()) *response = parts_.model.Models(parts_.fleet.Get());
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (!status.ok()) {
    Refuse(caller, status, access, reactor);
  } else {
    NoteAnswer(access, status);
    reactor->Finish(grpc::Status::OK);
  }
  return reactor;
}

}  // namespace baton
