// The part of the runner that learns from its calls what placement should know of the workers.
#include <algorithm>
#include <utility>
#include <variant>

#include "common/rpc/duration.h"
#include "common/rpc/status.h"
#include "router/runner/request_runner.h"

namespace baton {

void RequestRunner::Observe(const Request& request, WorkerLeg& leg,
                            const internal::v1::PrefillResponse& message) {
  if (message.has_started()) leg.cached_tokens = message.started().cached_tokens();
  if (message.has_first_token() && !std::exchange(leg.served, true)) {
    parts_.registry.Served(leg.worker_id);
  }
  if (!message.has_finished()) return;
  const auto share = request.shares.find(leg.attempt);
  if (share == request.shares.end()) return;
  const uint32_t prompt = share->second.prompt_tokens;
  parts_.registry.Prefilled(leg.worker_id, prompt - std::min(prompt, leg.cached_tokens),
                            DurationFromProto(message.finished().compute()));
  parts_.registry.HandedOff(leg.worker_id, share->second.decode, message.finished());
}

void RequestRunner::Observe(const Request& request, WorkerLeg& leg,
                            const internal::v1::DecodeResponse& message) {
  if (message.has_accepted()) leg.cached_tokens = message.accepted().cached_tokens();
  const bool serves = message.has_tokens() || message.has_committed();
  if (serves && !std::exchange(leg.served, true)) parts_.registry.Served(leg.worker_id);
  if (!message.has_finished()) return;
  const auto share = request.shares.find(leg.attempt);
  if (share == request.shares.end() || share->second.prefill != 0) return;  // not prefilled there
  const uint32_t prompt = share->second.prompt_tokens;
  parts_.registry.Prefilled(leg.worker_id, prompt - std::min(prompt, leg.cached_tokens),
                            DurationFromProto(message.finished().prefill()));
}

void RequestRunner::Observe(const WorkerLeg& leg, const RequestEvent& end) {
  const auto* decode = std::get_if<DecodeEnded>(&end);
  const absl::Status& status =
      decode != nullptr ? decode->status : std::get<PrefillEnded>(end).status;
  parts_.registry.Failed(leg.worker_id, leg.begun, status);
}

void RequestRunner::ObserveBreak(Request& request, const absl::Status& failure) {
  if (ErrorReason(failure) != kReasonKvTransferFailed) {
    request.failed_hand_offs = 0;
    return;
  }
  ++request.failed_hand_offs;
  for (const auto& [attempt, share] : request.shares) {
    if (request.machine->running(attempt)) continue;
    parts_.registry.HandOffFailed(share.prefill, share.decode);
  }
}

}  // namespace baton
