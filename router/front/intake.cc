#include "router/front/intake.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/rpc/limits.h"
#include "router/front/response_format.h"
#include "router/request/errors.h"

namespace baton {
namespace {

// gRPC knows deadlines to the millisecond, rounded up: with that little left one has passed.
constexpr absl::Duration kNoTime = absl::Milliseconds(2);

}  // namespace

// `request` and `call` live until both the preparation and the call have ended.
struct Intake::Running {
  uint64_t number = 0;
  const v1::GenerateRequest* request = nullptr;
  const ClientCall* call = nullptr;
  Caller caller;
  absl::Time received;
  absl::Time deadline;
  std::shared_ptr<const TraceContext> trace;
  Settled settled;
  LongAnswers long_answers = LongAnswers::kRefuse;
  uint64_t tokenised = 0;  // tokens that its text was made into, or about as much work
};

absl::Status Intake::CheckMemory() const {
  return parts_.short_of_memory && parts_.short_of_memory() ? ShortOfMemory() : absl::OkStatus();
}

absl::Status Intake::CheckOpen() const {
  return refusing_.load() ? RouterDraining() : CheckMemory();
}

Quotas::Ask Intake::AskOf(const v1::GenerateRequest& request, LongAnswers long_answers) const {
  const v1::SamplingParams& sampling = request.sampling_params();
  const uint32_t choices = std::max(sampling.n(), 1u);
  if (!sampling.has_max_tokens()) {
    return {.streams = choices, .tokens = ExpectedTokens(request, long_answers)};
  }
  const uint64_t most = MaxTokensOf(request, long_answers);
  return {.streams = choices, .tokens = AboutPromptTokens(request) + most * choices};
}

uint32_t Intake::MaxTokensOf(const v1::GenerateRequest& request, LongAnswers long_answers) const {
  const v1::SamplingParams& sampling = request.sampling_params();
  if (!sampling.has_max_tokens()) return UINT32_MAX;
  if (long_answers == LongAnswers::kRefuse) return sampling.max_tokens();
  const uint32_t context = parts_.model.LongestRequest(parts_.fleet.Get(), parts_.disaggregation);
  const uint64_t prompt = AboutPromptTokens(request);
  const uint64_t left = prompt < context ? context - prompt : 1;
  return static_cast<uint32_t>(std::min<uint64_t>(sampling.max_tokens(), left));
}

uint64_t Intake::ExpectedTokens(const v1::GenerateRequest& request,
                                LongAnswers long_answers) const {
  return parts_.admission.ExpectedTokens(
      AboutPromptTokens(request), MaxTokensOf(request, long_answers),
      std::min(std::max(request.sampling_params().n(), 1u), kMaxChoices));
}

absl::StatusOr<Admission::Ticket> Intake::AdmitOne(const Caller& caller,
                                                   const v1::GenerateRequest& request,
                                                   absl::Time received, absl::Time deadline,
                                                   LongAnswers long_answers) {
  BATON_ASSIGN_OR_RETURN(Admission::Ticket ticket,
                         parts_.admission.Admit({.tenant = caller.tenant,
                                                 .user = request.user().substr(0, kMaxNameBytes),
                                                 .priority = caller.Clamp(request.priority()),
                                                 .bytes = request.SpaceUsedLong(),
                                                 .tokens = ExpectedTokens(request, long_answers),
                                                 .time_left = deadline - received},
                                                received));
  BATON_RETURN_IF_ERROR(BATON_FAILPOINT_STATUS("router.before_admit"));
  BATON_RETURN_IF_ERROR(parts_.model.Validate(request));
  return ticket;
}

absl::StatusOr<std::vector<Intake::Place>> Intake::Admit(
    const Caller& caller, absl::Span<const v1::GenerateRequest* const> requests,
    absl::Time received, absl::Time deadline, LongAnswers long_answers) {
  absl::Status status = deadline <= received + kNoTime ? DeadlinePassed(kStageQueue) : CheckOpen();
  std::vector<Quotas::Ask> asks;
  for (const v1::GenerateRequest* request : requests) {
    asks.push_back(AskOf(*request, long_answers));
  }
  absl::StatusOr<std::vector<Quotas::Use>> uses =
      status.ok() ? parts_.quotas.Begin(caller, asks, received) : status;
  status = uses.status();
  std::vector<Place> places;
  for (size_t i = 0; i < requests.size() && status.ok(); ++i) {
    absl::StatusOr<Admission::Ticket> ticket =
        AdmitOne(caller, *requests[i], received, deadline, long_answers);
    status = ticket.status();
    if (!ticket.ok()) continue;
    places.push_back({.caller = caller,
                      .ticket = *std::move(ticket),
                      .use = std::move((*uses)[i]),
                      .received = received,
                      .deadline = deadline,
                      .long_answers = long_answers});
  }
  if (status.ok()) return places;
  CountRefused(status);
  return status;
}

void Intake::Trace(const TraceHeaders& headers, Place& place) const {
  if (parts_.tracer == nullptr) return;
  place.trace = std::make_shared<const TraceContext>(parts_.tracer->NewContext(headers));
}

void Intake::Start(Place place, const v1::GenerateRequest& request,
                   std::unique_ptr<ClientWriter> writer, Settled settled) {
  BATON_FAILPOINT("router.admitted");
  auto owned = std::make_unique<ClientCall>(parts_.loop, std::move(writer));
  Running running{.number = next_number_.fetch_add(1),
                  .request = &request,
                  .call = owned.get(),
                  .caller = std::move(place.caller),
                  .received = place.received,
                  .deadline = place.deadline,
                  .trace = std::move(place.trace),
                  .settled = std::move(settled),
                  .long_answers = place.long_answers};
  const uint64_t number = running.number;
  parts_.loop.PostOrRun([this, number, owned = std::move(owned), ticket = std::move(place.ticket),
                         use = std::move(place.use), access = std::move(place.access)]() mutable {
    parts_.runner.Arrived(number, std::move(owned), std::move(ticket), std::move(use),
                          std::move(access));
  });
  PreparingPool::Job prepare{.tenant = running.caller.tenant,
                             .cost = AboutPromptTokens(request),
                             .cancelled = [call = running.call] { return call->cancelled(); },
                             .run = nullptr};
  prepare.run = [this, running = std::move(running)](const absl::Status& may_run) mutable {
    absl::StatusOr<RequestSpec> spec = may_run.ok() ? Prepare(running) : may_run;
    HandOver(std::move(running), std::move(spec));
  };
  if (!parts_.pool.TryRun(std::move(prepare))) {
    parts_.loop.Post([this, number] {
      parts_.runner.Prepared(number, TokenizersBusy(), parts_.model.token_table());
    });
  }
}

absl::StatusOr<RequestSpec> Intake::Prepare(Running& running) {
  absl::StatusOr<RequestSpec> spec = parts_.model.Prepare(
      *running.request, parts_.fleet.Get(), parts_.disaggregation, RandomUint64(),
      parts_.pool.stopping(), &running.tokenised, running.long_answers);
  if (parts_.pool.stopping().load()) return RouterDraining();
  if (!spec.ok()) return spec;
  spec->id_high = RandomUint64();
  spec->id_low = RandomUint64();
  spec->tenant = running.caller.tenant;
  spec->cache_salt = parts_.secret.SaltFor(running.caller, spec->cache_salt);
  spec->priority = running.caller.Clamp(spec->priority);
  spec->chat = running.request->input_case() == v1::GenerateRequest::kChat;
  spec->trace = running.trace;
  spec->received = running.received;
  spec->deadline = running.deadline;
  return spec;
}

void Intake::HandOver(Running running, absl::StatusOr<RequestSpec> spec) {
  if (!spec.ok()) return Prepared(running, std::move(spec));
  absl::StatusOr<std::optional<GrammarSpec>> grammar = parts_.model.GrammarOf(*running.request);
  if (!grammar.ok()) return Prepared(running, grammar.status());
  if (!grammar->has_value()) return Prepared(running, std::move(spec));
  GrammarPool::Ask ask{.spec = **std::move(grammar),
                       .tenant = spec->tenant,
                       .deadline = spec->deadline,
                       .cancelled = [call = running.call] { return call->cancelled(); },
                       .done = nullptr};
  ask.done = [this, running = std::move(running),
              spec = *std::move(spec)](GrammarCache::Result compiled) mutable {
    if (!compiled.ok()) {
      return Prepared(running, NamingTools(*running.request, compiled.status()));
    }
    spec.grammar = *std::move(compiled);
    Prepared(running, std::move(spec));
  };
  parts_.grammars.Get(std::move(ask));
}

void Intake::Prepared(const Running& running, absl::StatusOr<RequestSpec> spec) {
  // The tokens of another prompt are charged by the runner, with those of its answer.
  if (!spec.ok()) parts_.quotas.ChargeText(running.caller, running.tokenised, SteadyNow());
  if (spec.ok() && running.settled) {
    running.settled(static_cast<uint32_t>(spec->prompt_token_ids.size()));
  }
  parts_.loop.PostOrRun([this, number = running.number, spec = std::move(spec)]() mutable {
    parts_.runner.Prepared(number, std::move(spec), parts_.model.token_table());
  });
}

}  // namespace baton
