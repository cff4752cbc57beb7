#include "common/protocol/worker_status.h"

#include <optional>

#include "absl/time/time.h"

namespace baton {
namespace {

constexpr absl::Duration kRetryAfter = absl::Milliseconds(100);

}  // namespace

absl::Status DrainingStatus(const std::string& worker, const char* stage) {
  return WithRetryInfo(WithErrorInfo(absl::UnavailableError("the worker is draining"),
                                     {kReasonDraining, stage, worker, {}}),
                       kRetryAfter);
}

absl::Status WorkerFullStatus(const std::string& what, const std::string& worker,
                              const char* stage) {
  return WithRetryInfo(
      WithErrorInfo(absl::ResourceExhaustedError(what), {kReasonWorkerFull, stage, worker, {}}),
      kRetryAfter);
}

absl::Status RefusedByEngine(const absl::Status& submitted, const std::string& worker,
                             const char* stage) {
  if (!absl::IsResourceExhausted(submitted)) return submitted;
  return WorkerFullStatus(std::string(submitted.message()), worker, stage);
}

bool TakesNoWork(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  return reason == kReasonWorkerFull || reason == kReasonDraining;
}

absl::Status WithPushFault(absl::Status status, const char* fault) {
  return WithErrorInfo(std::move(status),
                       {kReasonKvTransferFailed, kStageTransfer, "", {{kPushFault, fault}}});
}

std::string PushFaultOf(const absl::Status& status) {
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  if (!info.has_value()) return kPushOther;
  for (const auto& [key, value] : info->metadata) {
    for (const char* fault : {kPushUnprotected, kPushUnreachable, kPushLargePackets, kPushSilent,
                              kPushRefused, kPushBroke}) {
      if (key == kPushFault && value == fault) return fault;
    }
  }
  return kPushOther;
}

absl::Status TransferFailed(const absl::Status& cause, const std::string& worker,
                            std::vector<std::pair<std::string, std::string>> metadata) {
  ErrorInfo info{kReasonKvTransferFailed, kStageTransfer, worker, std::move(metadata)};
  if (TakesNoWork(cause)) {
    info.reason = ErrorReason(cause);
    return WithErrorInfo(cause, info);
  }
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (absl::IsFailedPrecondition(cause)) {
    code = absl::StatusCode::kFailedPrecondition;
    info.reason = kReasonModelMismatch;
  } else if (const std::string fault = PushFaultOf(cause); fault != kPushOther) {
    info.metadata.emplace_back(kPushFault, fault);
  }
  return WithErrorInfo(absl::Status(code, cause.message()), info);
}

}  // namespace baton
