#include "router/runner/request_calls.h"

#include <algorithm>
#include <utility>

#include "common/base/failpoint.h"
#include "common/rpc/status.h"
#include "router/request/account_check.h"
#include "router/request/errors.h"

namespace baton {

using internal::v1::DecodeResponse;
using internal::v1::PrefillResponse;

namespace {

// When the engine has the sequence once `message` has come, if it had it since `before`. A prompt
// that waits for blocks or for its hand-off is not in the engine.
absl::Time ComputedSince(absl::Time before, const PrefillResponse& message, absl::Time now) {
  if (message.has_first_token()) return absl::InfiniteFuture();
  return message.has_started() ? now : before;
}

absl::Time ComputedSince(absl::Time before, const DecodeResponse& message, absl::Time now) {
  const bool computes =
      message.has_prefill_progress() || message.has_committed() || message.has_tokens();
  return computes ? std::min(before, now) : before;
}

}  // namespace

Lease* RequestCalls::lease(uint32_t attempt) {
  const auto found = leases_.find(attempt);
  return found == leases_.end() ? nullptr : &found->second;
}

bool RequestCalls::Settle(const RequestMachine& machine, bool ended) {
  bool has_room = false;
  for (auto next = leases_.begin(); next != leases_.end();) {
    const auto entry = next++;
    auto& [attempt, lease] = *entry;
    const bool over = ended || !machine.running(attempt);
    if (over || machine.prompt_computed(attempt)) has_room |= lease.PromptComputed();
    if (over) leases_.erase(entry);
  }
  return has_room;
}

void RequestCalls::AttemptsBroke(const RequestMachine& machine, const absl::Status& failure) {
  if (ErrorReason(failure) != kReasonKvTransferFailed) {
    failed_hand_offs_ = 0;
    return;
  }
  ++failed_hand_offs_;
  for (const auto& [attempt, lease] : leases_) {
    if (!machine.running(attempt)) parts_.reports.HandOffFailed(lease, failure);
  }
}

template <typename Ended>
Worker* RequestCalls::FindWorker(uint64_t worker_id, uint32_t attempt) {
  Worker* worker = parts_.fleet.Find(worker_id);
  if (worker == nullptr) {
    handlers_.post(Ended{.attempt = attempt, .status = absl::UnavailableError("it is gone")});
  }
  return worker;
}

RequestCalls::Call& RequestCalls::AddCall(uint32_t attempt, uint64_t worker_id) {
  auto call = std::make_unique<Call>();
  call->attempt = attempt;
  call->report = {.worker_id = worker_id, .begun = leases_.at(attempt).begun(worker_id)};
  return *calls_.emplace_back(std::move(call));
}

template <typename Response, typename Message, typename Ended>
CallHandlers<Response> RequestCalls::HandlersOf(Call& call) {
  return {.on_message =
              [this, &call](Response& message) {
                if (!call.is_believed) return;
                // An account is kept for long after the request.
                if (message.has_finished()) message.DiscardUnknownFields();
                if (auto fault = AccountFault(message)) return Disbelieve<Ended>(call, *fault);
                parts_.reports.Heard(call.report, lease(call.attempt), message);
                call.computed_since =
                    ComputedSince(call.computed_since, message, parts_.loop.Now());
                Message event{.attempt = call.attempt, .message = {}};
                event.message.Swap(&message);
                handlers_.feed(event);
              },
          .on_end =
              [this, &call](const absl::Status& status) {
                CallEnded(call, status, Ended{.attempt = call.attempt, .status = status});
              }};
}

template <typename Ended>
void RequestCalls::Disbelieve(Call& call, const std::string& what) {
  const absl::Status status = NotBelieved(what);
  call.is_believed = false;
  call.Cancel();
  parts_.reports.NotBelieved(call.report, status);
  handlers_.feed(Ended{.attempt = call.attempt, .status = status});
}

void RequestCalls::Do(OpenDecode&& action) {
  BATON_FAILPOINT("router.before_open_decode");
  Worker* worker = FindWorker<DecodeEnded>(action.worker_id, action.attempt);
  if (worker == nullptr) return;
  Call& call = AddCall(action.attempt, action.worker_id);
  call.decode = std::make_unique<DecodeClientCall>(
      parts_.loop, HandlersOf<DecodeResponse, DecodeMessage, DecodeEnded>(call));
  call.decode->Begin(worker->rpcs->Decode(trace_.get(), *call.decode), std::move(action.start));
}

void RequestCalls::Do(StartPrefill&& action) {
  BATON_FAILPOINT("router.before_start_prefill");
  Worker* worker = FindWorker<PrefillEnded>(action.worker_id, action.attempt);
  if (worker == nullptr) return;
  leases_.at(action.attempt).PromptComes();
  Call& call = AddCall(action.attempt, action.worker_id);
  call.prefill = std::make_unique<StreamingCall<PrefillResponse>>(
      parts_.loop, HandlersOf<PrefillResponse, PrefillMessage, PrefillEnded>(call));
  call.prefill->Begin(worker->rpcs->Prefill(action.request, trace_.get(), *call.prefill));
}

void RequestCalls::CallEnded(const Call& call, const absl::Status& status,
                             const RequestEvent& event) {
  parts_.reports.Ended(call.report, status);
  handlers_.feed(event);
  calls_.erase(std::find_if(calls_.begin(), calls_.end(),
                            [&call](const auto& other) { return other.get() == &call; }));
  const auto on_ended = handlers_.on_ended;  // it may destroy the handlers
  on_ended();
}

bool RequestCalls::IsComputedBy(uint64_t worker_id, absl::Time time) const {
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& call) {
    // tests/planted_bugs: standstill_blames_what_waits
    return call->report.worker_id == worker_id && call->computed_since <= time;
  });
}

DecodeClientCall* RequestCalls::DecodeOf(uint32_t attempt) const {
  for (const auto& call : calls_) {
    if (call->decode != nullptr && call->attempt == attempt) return call->decode.get();
  }
  return nullptr;
}

void RequestCalls::Do(SendToDecode&& action) {
  DecodeClientCall* call = DecodeOf(action.attempt);
  if (call == nullptr) return;
  if (action.message.has_flow()) call->WantTokens(!action.message.flow().paused());
  call->Send(std::move(action.message));
}

void RequestCalls::Do(CloseDecode&& action) {
  if (DecodeClientCall* call = DecodeOf(action.attempt)) call->Close();
}

void RequestCalls::GiveUp(Call& call, const absl::Status& why) {
  if (!why.ok()) parts_.reports.Ended(call.report, why);
  call.Cancel();
}

void RequestCalls::Do(CancelDecode&& action) {
  BATON_FAILPOINT("router.before_cancel_decode");
  for (const auto& call : calls_) {
    if (call->decode != nullptr && call->attempt == action.attempt) GiveUp(*call, action.why);
  }
}

void RequestCalls::Do(CancelPrefill&& action) {
  for (const auto& call : calls_) {
    if (call->prefill != nullptr && call->attempt == action.attempt) GiveUp(*call, action.why);
  }
}

void RequestCalls::WorkerLost(uint64_t worker_id, const absl::Status& why) {
  for (const auto& call : calls_) {
    if (call->report.worker_id != worker_id) continue;
    call->Cancel();
    if (call->decode != nullptr) {
      handlers_.post(DecodeEnded{.attempt = call->attempt, .status = why});
    } else {
      handlers_.post(PrefillEnded{.attempt = call->attempt, .status = why});
    }
  }
}

void RequestCalls::CancelAll() {
  for (const auto& call : calls_) call->Cancel();
}

}  // namespace baton
