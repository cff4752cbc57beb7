#include "decode_worker/quarantine.h"

#include "common/rpc/status.h"

namespace baton {

std::string PusherKey(const internal::v1::Pusher& pusher) {
  return pusher.peer_id().empty() ? pusher.worker_id() : pusher.peer_id();
}

void Quarantine::Add(const std::string& pusher) {
  if (!pusher.empty() && pushers_.size() < kMost) pushers_.insert(pusher);
}

absl::Status Quarantine::CheckTrusted(const std::string& pusher) const {
  // tests/planted_bugs: quarantined_pusher_admitted
  if (pushers_.count(pusher) == 0 && pushers_.size() < kMost) return absl::OkStatus();
  return WithErrorInfo(
      absl::UnavailableError("a prefill worker that pushed wrong KV may not push to this decode "
                             "worker again until the decode worker is restarted"),
      {.reason = kReasonPusherQuarantined, .stage = kStageTransfer});
}

}  // namespace baton
