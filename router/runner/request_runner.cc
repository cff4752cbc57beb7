#include "router/runner/request_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/failpoint.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/protocol/identity.h"
#include "common/rpc/duration.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"
#include "router/request/errors.h"

namespace baton {

namespace {

constexpr size_t kCapabilityBytes = 16;

// Describes the workers of an attempt to the machine.
WorkersChosen Describe(const Assignment& assignment, std::string capability, bool expose) {
  const Worker* const prefill = assignment.prefill;
  const Worker* const decode = assignment.decode;
  WorkersChosen chosen;
  chosen.attempt = assignment.attempt;
  chosen.capability = std::move(capability);
  if (prefill != nullptr) {
    chosen.prefill = WorkerName{.id = prefill->id, .name = prefill->told_name(expose)};
    chosen.pusher.set_worker_id(prefill->info.name());
    chosen.pusher.set_peer_id(prefill->peer_id);
    chosen.prefill_numerics = prefill->info.shape().numerics();
  }
  if (decode != nullptr) {
    chosen.decode = WorkerName{.id = decode->id, .name = decode->told_name(expose)};
    chosen.decode_numerics = decode->info.shape().numerics();
    chosen.decode_address = decode->pushes_go_to();
    chosen.decode_identity = decode->info.identity();
  }
  chosen.model = (decode != nullptr ? decode : prefill)->seen.identity;
  const internal::v1::WorkerInfo& last = decode != nullptr ? decode->info : prefill->info;
  chosen.system_fingerprint = absl::StrCat(ToHex(last.identity().weights_digest().substr(0, 6)),
                                           "-", last.shape().numerics(), "-", last.version());
  return chosen;
}

// Returns the prompt tokens that prefill workers have to compute. With `auto` this includes tokens
// that a decode worker computes: it may do so only because no prefill worker has time.
uint32_t ForPrefillWorkers(const Lease::Terms& terms, const PlacementOptions& options) {
  const bool meant_for_decode = options.disaggregation == Disaggregation::kNever ||
                                options.disaggregation == Disaggregation::kByLength;
  return terms.prefill == 0 && meant_for_decode ? 0 : terms.computed_tokens;
}

// Counts the end of a request in metrics and admission. `machine` is null if it never began.
void CountEnd(const RequestRunner::Parts& parts, const RequestMachine* machine,
              const absl::Status& status, const std::string& finish_reason) {
  if (machine == nullptr) return parts.metrics.Refused(status);
  if (status.ok()) {
    const uint32_t choices = machine->spec().sampling.n();
    parts.admission.SawOutput(machine->usage().completion_tokens() / choices);
  }
  parts.metrics.Ended(*machine, status, finish_reason, parts.loop.Now());
}

// The machines leave a request's wait for busy workers to the dispatcher, and the dispatcher gives
// up a broken request when the machines would.
RequestRunner::Options WithTimesOfTheQueue(RequestRunner::Options options,
                                           const Admission::Limits& limits) {
  options.machine.queue_time = limits.max_queue_time;
  options.dispatch.resume_grace = options.machine.worker_timeout;
  return options;
}

// Returns the work that was done for a request that ends with `status`.
AccessWork WorkOf(const RequestMachine& machine, const absl::Status& status) {
  AccessWork work{.prompt_tokens = machine.spec().prompt_token_ids.size(),
                  .cached_tokens = machine.usage().cached_tokens(),
                  .output_tokens =
                      status.ok() ? machine.usage().completion_tokens() : machine.accepted_tokens(),
                  .attempts = machine.attempt()};
  if (machine.timings().has_time_to_first_token()) {
    work.time_to_first_token = DurationFromProto(machine.timings().time_to_first_token());
  }
  return work;
}

void LogBreak(uint64_t number, const RequestMachine& machine) {
  LogWarning("request {}: attempt {} follows, after {} tokens: {}", number, machine.attempt(),
             machine.accepted_tokens(), LogSafe(machine.last_failure().message()));
}

void LogEnd(uint64_t number, const absl::Status& status) {
  if (absl::IsInternal(status)) {
    LogError("request {}: {}", number, LogSafe(status.message()));
  } else if (absl::IsUnavailable(status)) {
    LogWarning("request {}: {}", number, LogSafe(status.message()));
  }
}

}  // namespace

RequestRunner::RequestRunner(const Parts& parts, const Options& options)
    : parts_(parts),
      options_(WithTimesOfTheQueue(options, parts.admission.limits())),
      reports_(parts.fleet,
               [&metrics = parts.metrics](const WorkerTarget& prefill, const WorkerTarget& decode,
                                          const std::string& fault) {
                 metrics.LinkFailed(prefill.address, decode.address, fault);
               }),
      dispatcher_({.loop = parts.loop,
                   .fleet = parts.fleet,
                   .view = parts.view,
                   .admission = parts.admission,
                   .place = parts.place},
                  options_.dispatch, DispatchHandlers()) {}

ClientCall::Handlers RequestRunner::ClientHandlers(uint64_t number) {
  return {
      .on_cancelled =
          [this, number](bool client_left) {
            Request* r = Find(number);
            if (client_left && !r->ended) parts_.metrics.Disconnected();
            if (r->machine != nullptr) return Feed(*r, ClientCancelled{});
            EndClient(*r, absl::CancelledError("the client cancelled the call"), "");
          },
      .on_behind =
          [this, number] {
            parts_.metrics.Behind(1);
            Post(number, ClientBehind{});
          },
      .on_caught_up =
          [this, number] {
            parts_.metrics.Behind(-1);
            Post(number, ClientCaughtUp{});
          },
      .on_done =
          [this, number] {
            Request* r = Find(number);
            if (r->client->behind()) parts_.metrics.Behind(-1);
            r->client.reset();
            RemoveIfAtRest(*r);
          },
  };
}

Dispatcher::Handlers RequestRunner::DispatchHandlers() {
  return {.on_placed =
              [this](uint64_t number, Assignment assignment) {
                GiveWorkers(*Find(number), std::move(assignment));
              },
          .on_given_up =
              [this](uint64_t number, const absl::Status& why) {
                Request& request = *Find(number);
                const absl::Status before = request.machine->why_it_waits();
                Feed(request, Abandoned{before.ok() ? why : before});
              }};
}

void RequestRunner::Arrived(uint64_t number, std::unique_ptr<ClientCall> client,
                            Admission::Ticket ticket, Quotas::Use use,
                            std::shared_ptr<AccessEntry> access) {
  auto request = std::make_unique<Request>();
  Request& added = *request;
  request->number = number;
  request->client = std::move(client);
  request->ticket = std::move(ticket);
  request->use = std::move(use);
  request->access = std::move(access);
  request->client->SetHandlers(ClientHandlers(number));
  request->calls = std::make_unique<RequestCalls>(
      RequestCalls::Parts{.loop = parts_.loop, .fleet = parts_.fleet, .reports = reports_},
      RequestCalls::Handlers{
          .feed = [this, &added](const RequestEvent& event) { Feed(added, event); },
          .post = [this, number](RequestEvent event) { Post(number, std::move(event)); },
          .on_ended = [this, &added] { RemoveIfAtRest(added); }});
  ++unended_;
  parts_.metrics.Running(1);
  requests_.emplace(number, std::move(request));
  if (closed_) EndClient(added, RouterDraining(), "");
}

void RequestRunner::Prepared(uint64_t number, absl::StatusOr<RequestSpec> spec,
                             const TokenTable& table) {
  Request& request = *Find(number);
  request.prepared = true;
  // Its tokens were made, whatever becomes of the request.
  if (spec.ok()) request.use.ChargeUpTo(spec->prompt_token_ids.size(), parts_.loop.Now());
  if (!request.ended && !spec.ok()) return EndClient(request, spec.status(), "");
  if (request.ended) return request.client->FinishWith(request.end_status);
  BATON_FAILPOINT("router.prepared");
  request.machine = std::make_unique<RequestMachine>(*std::move(spec), table, options_.machine);
  if (parts_.demand != nullptr) {
    const size_t tokens = request.machine->spec().prompt_token_ids.size();
    request.asked = parts_.demand->Arrived(static_cast<uint32_t>(tokens));
  }
  if (parts_.history != nullptr) {
    request.record = parts_.history->Begin(request.machine->spec(), parts_.loop.Now());
  }
  request.calls->SetTrace(request.machine->spec().trace);
  dispatcher_.Enter(number, request.machine->spec(), request.ticket);
  DoAll(request, request.machine->Start(parts_.loop.Now()));
}

void RequestRunner::GiveWorkers(Request& request, Assignment assignment) {
  for (const Worker* worker : {assignment.prefill, assignment.decode}) {
    if (worker == nullptr) continue;
    parts_.metrics.Selected(worker->target.address, WorkerRoleName(worker->target.role),
                            options_.dispatch.placement.policy);
  }
  BATON_FAILPOINT("router.workers_found");
  if (request.record != nullptr) {
    const auto name = [](const Worker* worker) {
      return worker == nullptr ? std::string() : worker->info.name();
    };
    request.record->Chosen(assignment.attempt, name(assignment.prefill), name(assignment.decode),
                           *request.machine, parts_.loop.Now());
  }
  if (parts_.demand != nullptr) {
    const PlacementOptions& placement = options_.dispatch.placement;
    parts_.demand->GotWorkers(request.asked,
                              ForPrefillWorkers(assignment.lease.terms(), placement));
  }
  request.calls->Hold(assignment.attempt, std::move(assignment.lease));
  Feed(request,
       Describe(assignment, parts_.random_bytes(kCapabilityBytes), options_.expose_workers));
}

void RequestRunner::TryElsewhere(uint64_t number, const ChooseWorkers& ask) {
  Request* request = Find(number);
  if (request == nullptr || request->ended || !request->machine->running(ask.attempt)) return;
  Lease* const beside = request->calls->lease(ask.needs.beside);
  if (auto assignment = dispatcher_.TryElsewhere(number, ask, beside)) {
    GiveWorkers(*request, *std::move(assignment));
  } else {
    Feed(*request, NoneElsewhere{ask.attempt});
  }
}

void RequestRunner::Feed(Request& request, const RequestEvent& event) {
  const absl::Time now = parts_.loop.Now();
  const uint32_t breaks = request.machine->breaks();
  RequestActions actions = request.machine->Handle(event, now);
  parts_.observer.Handled(*request.machine, event, request.seen, now);
  if (request.record != nullptr) request.record->Handled(*request.machine, event, now);
  if (request.machine->breaks() != breaks) AttemptsBroke(request);
  DoAll(request, std::move(actions));
}

void RequestRunner::AttemptsBroke(Request& request) {
  BATON_FAILPOINT("router.attempt_broke");
  const absl::Status& failure = request.machine->last_failure();
  LogBreak(request.number, *request.machine);
  parts_.metrics.Retried(failure);
  request.calls->AttemptsBroke(*request.machine, failure);
  dispatcher_.SetFailedHandOffs(request.number, request.calls->failed_hand_offs());
}

void RequestRunner::Post(uint64_t number, RequestEvent event) {
  parts_.loop.Post([this, number, event = std::move(event)] {
    Request* request = Find(number);
    if (request != nullptr && request->machine != nullptr) Feed(*request, event);
  });
}

void RequestRunner::DoAll(Request& request, RequestActions actions) {
  for (RequestAction& action : actions) {
    std::visit([&](auto& a) { Do(request, std::move(a)); }, action);
  }
  Settle(request);
}

void RequestRunner::Do(Request& request, ChooseWorkers&& action) {
  BATON_FAILPOINT("router.before_choose");
  if (action.needs.beside == 0) return dispatcher_.Ask(request.number, std::move(action));
  parts_.loop.Post(
      [this, number = request.number, ask = std::move(action)] { TryElsewhere(number, ask); });
}

void RequestRunner::Do(Request& request, Deliver&& action) {
  BATON_FAILPOINT("router.before_deliver");
  request.client->Send(std::move(action.response));
}

void RequestRunner::Do(Request& request, Complete&& action) {
  BATON_FAILPOINT("router.before_complete");
  const v1::FinishReason reason = action.responses.front().complete().finish_reason();
  for (v1::GenerateResponse& response : action.responses) {
    request.client->Send(std::move(response));
  }
  EndClient(request, absl::OkStatus(), reason == v1::FINISH_REASON_LENGTH ? "length" : "stop");
}

void RequestRunner::Do(Request& request, Fail&& action) {
  BATON_FAILPOINT("router.before_fail");
  EndClient(request, action.status, "");
}

void RequestRunner::Do(Request& request, SetTimer&& action) {
  parts_.loop.Cancel(request.timer);
  request.timer = parts_.loop.RunAt(action.at, [this, &request] { Feed(request, TimerFired{}); });
}

void RequestRunner::EndClient(Request& request, const absl::Status& status,
                              const std::string& finish_reason) {
  if (request.ended) return;
  request.ended = true;
  dispatcher_.Leave(request.number);
  standstills_.Ended(request.number);
  --unended_;
  parts_.metrics.Running(-1);
  CountEnd(parts_, request.machine.get(), status, finish_reason);
  if (parts_.demand != nullptr && request.machine != nullptr) {
    parts_.demand->Ended(request.asked, request.machine->accepted_tokens(),
                         absl::IsResourceExhausted(status));
  }
  if (request.record != nullptr) {
    request.record->Ended(*request.machine, status, finish_reason, parts_.loop.Now());
    if (parts_.tracer != nullptr) parts_.tracer->Ended(request.record, request.machine->spec());
  }
  LogEnd(request.number, status);
  NoteEnd(request, status);
  request.end_status = options_.expose_workers ? status : WithoutWorkersWords(status);
  // The end of the call would free the request that is being prepared.
  if (request.prepared) request.client->FinishWith(request.end_status);
  EndCallsLater(request);
}

void RequestRunner::NoteEnd(Request& request, const absl::Status& status) {
  const std::shared_ptr<AccessEntry> access = std::exchange(request.access, nullptr);
  if (access == nullptr) return;
  if (!status.ok()) access->Failed(status);
  if (request.machine == nullptr) return;
  access->Worked(WorkOf(*request.machine, status));
  if (request.record != nullptr && access->id().empty()) access->SetId(request.record->id());
}

void RequestRunner::EndCallsLater(Request& request) {
  parts_.loop.Cancel(request.timer);
  request.timer = parts_.loop.RunAt(parts_.loop.Now() + options_.call_end_grace, [this, &request] {
    request.calls->CancelAll();
    AbortClientWhenStalled(request);
  });
}

void RequestRunner::AbortClientWhenStalled(Request& request) {
  if (request.client == nullptr) return;
  const absl::Time until = request.client->last_progress() + options_.machine.stall_timeout;
  if (parts_.loop.Now() >= until) return request.client->Abort();
  request.timer = parts_.loop.RunAt(until, [this, &request] { AbortClientWhenStalled(request); });
}

void RequestRunner::Settle(Request& request) {
  const bool admitted = request.machine != nullptr && request.machine->admitted();
  if (admitted || request.ended) request.ticket.Release();
  if (admitted) {
    const size_t prompt = request.machine->spec().prompt_token_ids.size();
    request.use.ChargeUpTo(prompt + request.machine->accepted_tokens(), parts_.loop.Now());
  }
  if (request.ended) request.use.End();
  if (request.calls->Settle(*request.machine, request.ended)) dispatcher_.PlaceSoon();
}

void RequestRunner::RemoveIfAtRest(Request& request) {
  if (!request.prepared || request.client != nullptr || !request.calls->empty()) return;
  parts_.loop.Cancel(request.timer);
  requests_.erase(request.number);
  if (closed_ && requests_.empty()) closed_();
}

RequestRunner::Request* RequestRunner::Find(uint64_t number) {
  const auto it = requests_.find(number);
  return it == requests_.end() ? nullptr : it->second.get();
}

void RequestRunner::WorkerStoodStill(const Worker& worker, absl::Time since) {
  // The engine stopped some time before the next report. What came to it later is not the cause.
  // tests/planted_bugs: standstill_blames_what_came_later
  const absl::Time begun_by = since + 2 * kWatchInterval;
  std::vector<uint64_t> computed;
  for (const auto& [number, request] : requests_) {
    const bool runs =
        !request->ended && request->machine != nullptr && !request->machine->finishing();
    if (runs && request->calls->IsComputedBy(worker.id, begun_by)) computed.push_back(number);
  }
  const std::string name = worker.told_name(options_.expose_workers);
  const auto named =
      standstills_.StoodStill({.address = worker.target.address, .name = name}, computed);
  if (!named.has_value()) return;
  const bool prefills = worker.target.role == internal::v1::WORKER_ROLE_PREFILL;
  Post(named->request, Abandoned{WorkersStoodStill(prefills ? kStagePrefill : kStageDecode,
                                                   {named->other_worker, name})});
}

void RequestRunner::WorkerLost(uint64_t worker_id, const absl::Status& why) {
  for (const auto& [number, request] : requests_) request->calls->WorkerLost(worker_id, why);
}

void RequestRunner::EndAll(const absl::Status& status) {
  for (const auto& [number, request] : requests_) {
    if (request->ended) continue;
    if (request->machine != nullptr) {
      Post(number, Abandoned{status});
    } else {
      EndClient(*request, status, "");
    }
  }
}

void RequestRunner::Close(const absl::Status& status, std::function<void()> closed) {
  closed_ = std::move(closed);
  EndAll(status);
  if (requests_.empty()) closed_();
}

}  // namespace baton
