#include "router/fleet/circuit_breaker.h"

#include <algorithm>
#include <string>

#include "common/rpc/status.h"

namespace baton {

uint64_t CircuitBreaker::Begin(absl::Time now) {
  if (open()) open_until_ = now + pause_;
  return heard_;
}

void CircuitBreaker::Failed(uint64_t begun, absl::Time now) {
  if (begun < heard_) return;
  ++heard_;
  if (failures_ < kFailures) ++failures_;
  if (!open()) {
    pause_ = kFirstPause;
    return;
  }
  open_until_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
}

bool IsWorkersFault(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnimplemented: {
      const std::string reason = ErrorReason(status);
      return reason != kReasonDraining && reason != kReasonKvTransferFailed &&
             reason != kReasonKvWrong && reason != kReasonPusherQuarantined;
    }
    default:
      return false;
  }
}

}  // namespace baton
