#include "router/runner/request_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/version.h"
#include "common/rpc/status.h"
#include "router/request/request_errors.h"

namespace baton {

using internal::v1::DecodeResponse;
using internal::v1::PrefillResponse;

RequestRunner::RequestRunner(const Parts& parts, const Options& options)
    : parts_(parts), options_(options) {}

void RequestRunner::Arrived(uint64_t number, std::unique_ptr<ClientCall> client,
                            Admission::Ticket ticket) {
  auto request = std::make_unique<Request>();
  request->number = number;
  request->client = std::move(client);
  request->ticket = std::move(ticket);
  request->client->SetHandlers({
      .on_cancelled =
          [this, number] {
            Request* r = Find(number);
            if (!r->ended) parts_.metrics.Disconnected();
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
  });
  ++unended_;
  parts_.metrics.Running(1);
  Request& added = *requests_.emplace(number, std::move(request)).first->second;
  if (closed_) EndClient(added, RouterDraining(), "");
}

void RequestRunner::Prepared(uint64_t number, absl::StatusOr<RequestSpec> spec,
                             const TokenTable& table) {
  Request& request = *Find(number);
  request.prepared = true;
  if (!request.ended && !spec.ok()) return EndClient(request, spec.status(), "");
  if (request.ended) return request.client->FinishWith(request.end_status);
  BATON_FAILPOINT("router.prepared");
  request.machine = std::make_unique<RequestMachine>(*std::move(spec), table, options_.machine);
  DoAll(request, request.machine->Start(SteadyNow()));
}

void RequestRunner::Feed(Request& request, const RequestEvent& event) {
  const absl::Time now = SteadyNow();
  const uint32_t breaks = request.machine->breaks();
  RequestActions actions = request.machine->Handle(event, now);
  if (request.machine->breaks() != breaks) AttemptsBroke(request);
  if (const size_t tokens = request.machine->accepted_tokens(); tokens > request.tokens_seen) {
    parts_.metrics.TokensDelivered(*request.machine, request.last_token, now);
    request.tokens_seen = tokens;
    request.last_token = now;
  }
  DoAll(request, std::move(actions));
}

void RequestRunner::AttemptsBroke(Request& request) {
  BATON_FAILPOINT("router.attempt_broke");
  const absl::Status& failure = request.machine->last_failure();
  LogWarning("request {}: attempt {} follows, after {} tokens: {}", request.number,
             request.machine->attempt(), request.machine->accepted_tokens(),
             LogSafe(failure.message()));
  parts_.metrics.Retried(failure);
  ObserveBreak(request, failure);
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
  if (action.needs.beside != 0) {
    parts_.loop.Post(
        [this, number = request.number, ask = std::move(action)] { PlaceElsewhere(number, ask); });
    return;
  }
  const bool waits = !request.asks.empty();
  request.asks.push_back(std::move(action));
  if (waits) return;
  request.none_ready_since = absl::InfiniteFuture();
  Enqueue(request);
  SchedulePlacing();
}

RequestRunner::WorkerLeg& RequestRunner::AddLeg(Request& request, uint32_t attempt,
                                                uint64_t worker_id) {
  auto leg = std::make_unique<WorkerLeg>();
  leg->attempt = attempt;
  leg->worker_id = worker_id;
  const WorkerShare& share = request.shares.at(attempt);
  leg->begun = worker_id == share.prefill ? share.prefill_begun : share.decode_begun;
  return *request.legs.emplace_back(std::move(leg));
}

void RequestRunner::Do(Request& request, OpenDecode&& action) {
  BATON_FAILPOINT("router.before_open_decode");
  Worker* worker = parts_.registry.Find(action.worker_id);
  if (worker == nullptr) {
    return Post(request.number, DecodeEnded{action.attempt, absl::UnavailableError("it is gone")});
  }
  WorkerLeg& leg = AddLeg(request, action.attempt, action.worker_id);
  leg.decode = std::make_unique<DecodeClientCall>(
      parts_.loop, CallHandlers<DecodeResponse>{
                       .on_message =
                           [this, &request, &leg](DecodeResponse& message) {
                             Observe(request, leg, message);
                             DecodeMessage event{.attempt = leg.attempt, .message = {}};
                             event.message.Swap(&message);
                             Feed(request, event);
                           },
                       .on_end =
                           [this, number = request.number, &leg](const absl::Status& status) {
                             LegEnded(number, &leg, DecodeEnded{leg.attempt, status});
                           }});
  leg.decode->Begin(*worker->decode_stub, std::move(action.start));
}

void RequestRunner::Do(Request& request, StartPrefill&& action) {
  BATON_FAILPOINT("router.before_start_prefill");
  Worker* worker = parts_.registry.Find(action.worker_id);
  if (worker == nullptr) {
    return Post(request.number, PrefillEnded{action.attempt, absl::UnavailableError("it is gone")});
  }
  parts_.registry.PromptComes(request.shares.at(action.attempt));
  WorkerLeg& leg = AddLeg(request, action.attempt, action.worker_id);
  leg.prefill = std::make_unique<StreamingCall<PrefillResponse>>(
      parts_.loop, CallHandlers<PrefillResponse>{
                       .on_message =
                           [this, &request, &leg](PrefillResponse& message) {
                             Observe(request, leg, message);
                             PrefillMessage event{.attempt = leg.attempt, .message = {}};
                             event.message.Swap(&message);
                             Feed(request, event);
                           },
                       .on_end =
                           [this, number = request.number, &leg](const absl::Status& status) {
                             LegEnded(number, &leg, PrefillEnded{leg.attempt, status});
                           }});
  worker->prefill_stub->async()->Prefill(&leg.prefill->context(), &action.request,
                                         leg.prefill.get());
  leg.prefill->Begin();
}

void RequestRunner::LegEnded(uint64_t number, const WorkerLeg* leg, const RequestEvent& event) {
  Request& request = *Find(number);
  Observe(*leg, event);
  Feed(request, event);
  request.legs.erase(std::find_if(request.legs.begin(), request.legs.end(),
                                  [leg](const auto& l) { return l.get() == leg; }));
  RemoveIfAtRest(request);
}

DecodeClientCall* RequestRunner::DecodeOf(Request& request, uint32_t attempt) {
  for (const auto& leg : request.legs) {
    if (leg->decode != nullptr && leg->attempt == attempt) return leg->decode.get();
  }
  return nullptr;
}

void RequestRunner::Do(Request& request, SendToDecode&& action) {
  DecodeClientCall* call = DecodeOf(request, action.attempt);
  if (call == nullptr) return;
  if (action.message.has_flow()) call->WantTokens(!action.message.flow().paused());
  call->Send(std::move(action.message));
}

void RequestRunner::Do(Request& request, CloseDecode&& action) {
  if (DecodeClientCall* call = DecodeOf(request, action.attempt)) call->Close();
}

void RequestRunner::Do(Request& request, CancelDecode&& action) {
  BATON_FAILPOINT("router.before_cancel_decode");
  if (DecodeClientCall* call = DecodeOf(request, action.attempt)) call->Cancel();
}

void RequestRunner::Do(Request& request, CancelPrefill&& action) {
  for (const auto& leg : request.legs) {
    if (leg->prefill != nullptr && leg->attempt == action.attempt) leg->prefill->Cancel();
  }
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
  waiting_.Remove(request.number);
  --unended_;
  parts_.metrics.Running(-1);
  if (status.ok()) {
    const RequestMachine& machine = *request.machine;
    parts_.admission.SawOutput(machine.usage().completion_tokens() / machine.spec().sampling.n());
  }
  if (request.machine != nullptr) {
    parts_.metrics.Ended(*request.machine, status, finish_reason, SteadyNow());
  } else {
    parts_.metrics.Refused(status);
  }
  if (absl::IsInternal(status)) {
    LogError("request {}: {}", request.number, LogSafe(status.message()));
  } else if (absl::IsUnavailable(status)) {
    LogWarning("request {}: {}", request.number, LogSafe(status.message()));
  }
  request.end_status = status;
  // The end of the call would free the request that is being prepared.
  if (request.prepared) request.client->FinishWith(status);
  EndLegsLater(request);
}

void RequestRunner::EndLegsLater(Request& request) {
  parts_.loop.Cancel(request.timer);
  request.timer = parts_.loop.RunAt(SteadyNow() + options_.call_end_grace, [this, &request] {
    for (const auto& leg : request.legs) {
      if (leg->decode != nullptr) leg->decode->Cancel();
      if (leg->prefill != nullptr) leg->prefill->Cancel();
    }
    AbortClientWhenStalled(request);
  });
}

void RequestRunner::AbortClientWhenStalled(Request& request) {
  if (request.client == nullptr) return;
  const absl::Time until = request.client->last_progress() + options_.machine.stall_timeout;
  if (SteadyNow() >= until) return request.client->Abort();
  request.timer = parts_.loop.RunAt(until, [this, &request] { AbortClientWhenStalled(request); });
}

void RequestRunner::Settle(Request& request) {
  const bool admitted = request.machine != nullptr && request.machine->admitted();
  if (admitted || request.ended) request.ticket.Release();
  for (auto next = request.shares.begin(); next != request.shares.end();) {
    const auto entry = next++;
    auto& [attempt, share] = *entry;
    if (request.ended || !request.machine->running(attempt)) {
      GiveBackPromptPlace(share);
      parts_.registry.GiveBack(share);
      request.shares.erase(entry);
    } else if (request.machine->prompt_computed(attempt)) {
      GiveBackPromptPlace(share);
    }
  }
}

void RequestRunner::GiveBackPromptPlace(WorkerShare& share) {
  if (!share.prompt_waits) return;
  parts_.registry.PromptComputed(share);
  SchedulePlacing();
}

void RequestRunner::RemoveIfAtRest(Request& request) {
  if (!request.prepared || request.client != nullptr || !request.legs.empty()) return;
  parts_.loop.Cancel(request.timer);
  requests_.erase(request.number);
  if (closed_ && requests_.empty()) closed_();
}

RequestRunner::Request* RequestRunner::Find(uint64_t number) {
  const auto it = requests_.find(number);
  return it == requests_.end() ? nullptr : it->second.get();
}

void RequestRunner::WorkerLost(uint64_t worker_id, const absl::Status& why) {
  for (const auto& [number, request] : requests_) {
    for (const auto& leg : request->legs) {
      if (leg->worker_id != worker_id) continue;
      if (leg->decode != nullptr) {
        leg->decode->Cancel();
        Post(number, DecodeEnded{leg->attempt, why});
      } else {
        leg->prefill->Cancel();
        Post(number, PrefillEnded{leg->attempt, why});
      }
    }
  }
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
