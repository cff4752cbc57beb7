#include "router/fleet/worker_reports.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/protocol/identity.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/duration.h"

namespace baton {
namespace {

constexpr double kWeightOfNew = 0.2;
// A few tokens say more about a step's fixed cost than about the rate.
constexpr uint32_t kLeastMeasuredTokens = 64;
// No worker is faster or slower. Who claims so could draw all requests to itself.
constexpr double kMostTokensPerSecond = 1e6;
constexpr double kLeastTokensPerSecond = 1e-2;

}  // namespace

void WorkerReports::Heard(Call& call, const Lease* lease,
                          const internal::v1::PrefillResponse& message) {
  if (message.has_started()) {
    call.cached_tokens = call.computed_tokens = message.started().cached_tokens();
  }
  if (message.has_progress()) Computed(call, message.progress().computed_tokens());
  if (message.has_first_token()) Served(call);
  if (!message.has_finished() || lease == nullptr) return;
  const internal::v1::PrefillFinished& finished = message.finished();
  Prefilled(call, *lease, DurationFromProto(finished.compute()));
  const uint64_t decode = lease->terms().decode;
  HandedOff(call, decode, finished);
  if (fleet_.Find(call.worker_id) == nullptr || fleet_.Find(decode) == nullptr) return;
  fleet_.link_failures().Succeeded(call.worker_id, decode);
  fleet_.links().Succeeded(call.worker_id, decode, finished.bytes_sent(),
                           DurationFromProto(finished.transfer()),
                           DurationFromProto(finished.exposed_transfer()));
}

void WorkerReports::Heard(Call& call, const Lease* lease,
                          const internal::v1::DecodeResponse& message) {
  if (message.has_accepted()) {
    call.cached_tokens = call.computed_tokens = message.accepted().cached_tokens();
  }
  if (message.has_prefill_progress()) {
    Computed(call, message.prefill_progress().computed_tokens());
  }
  if (message.has_tokens() || message.has_committed()) Served(call);
  if (message.has_tokens()) {
    if (Worker* worker = fleet_.Find(call.worker_id)) {
      worker->traffic.output_tokens += static_cast<uint64_t>(message.tokens().tokens_size());
    }
  }
  if (!message.has_finished() || lease == nullptr) return;
  if (lease->terms().prefill != 0) return;  // the prompt was not computed there
  Prefilled(call, *lease, DurationFromProto(message.finished().prefill()));
}

// No worker says that it computed more than a prompt can have.
void WorkerReports::Computed(Call& call, uint32_t tokens) {
  Worker* worker = fleet_.Find(call.worker_id);
  if (worker == nullptr || tokens <= call.computed_tokens) return;
  tokens = std::min(tokens, worker->seen.max_model_len);
  if (tokens <= call.computed_tokens) return;
  worker->traffic.prompt_tokens += tokens - call.computed_tokens;
  call.computed_tokens = tokens;
}

void WorkerReports::HandedOff(const Call& call, uint64_t decode,
                              const internal::v1::PrefillFinished& finished) {
  if (finished.messages() == 0) return;
  for (const uint64_t id : {call.worker_id, decode}) {
    Worker* worker = fleet_.Find(id);
    if (worker == nullptr) continue;
    ++worker->traffic.hand_offs;
    worker->traffic.hand_off_bytes += finished.bytes_sent();
    worker->traffic.exposed_transfer += DurationFromProto(finished.exposed_transfer());
  }
}

void WorkerReports::Served(Call& call) {
  if (std::exchange(call.served, true)) return;
  Worker* worker = fleet_.Find(call.worker_id);
  if (worker == nullptr) return;
  if (worker->breaker.open() && MayLog(*worker, fleet_.Now())) {
    LogInfo("{} worker '{}' at {} serves again", WorkerRoleName(worker->target.role),
            LogSafe(worker->info.name()), worker->target.address);
  }
  worker->breaker.Succeeded();
  fleet_.LoadChanged(*worker);
}

void WorkerReports::Ended(const Call& call, const absl::Status& status) {
  Worker* worker = fleet_.Find(call.worker_id);
  if (worker == nullptr || !IsWorkersFault(status)) return;
  const bool was_open = worker->breaker.open();
  worker->breaker.Failed(call.begun, fleet_.Now());
  if (worker->breaker.open() && !was_open && MayLog(*worker, fleet_.Now())) {
    LogWarning("{} worker '{}' at {} gets few requests: it failed {} in a row, the last with: {}",
               WorkerRoleName(worker->target.role), LogSafe(worker->info.name()),
               worker->target.address, CircuitBreaker::kFailures, LogSafe(status.message()));
  }
  fleet_.LoadChanged(*worker);
}

void WorkerReports::NotBelieved(const Call& call, const absl::Status& status) {
  Worker* worker = fleet_.Find(call.worker_id);
  if (worker != nullptr && MayLog(*worker, fleet_.Now())) {
    LogWarning("{} worker '{}' at {} is not believed: {}", WorkerRoleName(worker->target.role),
               LogSafe(worker->info.name()), worker->target.address, LogSafe(status.message()));
  }
  Ended(call, status);
}

void WorkerReports::Prefilled(const Call& call, const Lease& lease, absl::Duration compute) {
  const uint32_t prompt = lease.terms().prompt_tokens;
  const uint32_t tokens = prompt - std::min(prompt, call.cached_tokens);
  Worker* worker = fleet_.Find(call.worker_id);
  if (worker == nullptr || tokens < kLeastMeasuredTokens || compute <= absl::ZeroDuration()) return;
  double& rate = worker->measured_tokens_per_second;
  const double now = std::clamp(tokens / absl::ToDoubleSeconds(compute), kLeastTokensPerSecond,
                                kMostTokensPerSecond);
  rate = rate == 0 ? now : rate + kWeightOfNew * (now - rate);
  worker->traffic.timed_prompt_tokens += tokens;
  worker->traffic.prompt_compute += absl::Seconds(tokens / now);
  worker->seen.prefill_tokens_per_second = rate;
}

void WorkerReports::HandOffFailed(const Lease& lease, const absl::Status& failure) {
  const Worker* const prefill = fleet_.Find(lease.terms().prefill);
  const Worker* const decode = fleet_.Find(lease.terms().decode);
  if (prefill == nullptr || decode == nullptr) return;
  fleet_.links().Failed(prefill->id, decode->id, fleet_.Now());
  const std::string fault = PushFaultOf(failure);
  if (on_link_failed_) on_link_failed_(prefill->target, decode->target, fault);
  const LinkFailure* const due = fleet_.link_failures().Failed(
      prefill->id, decode->id, fault, LogSafe(failure.message(), failure.message().size()),
      fleet_.Now());
  if (due == nullptr) return;
  LogWarning(
      "hand-offs fail from prefill worker '{}' at {} to decode worker '{}', which takes them at "
      "{}: fault={} failures={}: {}",
      LogSafe(prefill->info.name()), prefill->target.address, LogSafe(decode->info.name()),
      decode->pushes_go_to(), fault, due->count, due->text);
}

}  // namespace baton
