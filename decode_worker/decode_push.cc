#include "decode_worker/decode_push.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/access/peer.h"
#include "common/base/clock.h"
#include "common/handoff/kv_digest.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {

using internal::v1::PushRefused;

DecodePush::DecodePush(Engine& engine, const DecodeServiceOptions& options)
    : engine_(engine), options_(options), meter_(options.metrics) {}

void DecodePush::Prepare(const internal::v1::DecodeStart& start, const SequenceRequest& request) {
  const internal::v1::SequenceSpec& spec = start.sequence();
  config_ = ReceiveConfig{
      .key = spec.key(),
      .capability = spec.capability(),
      .pusher = start.pusher(),
      .secure = options_.secure,
      .identity = options_.identity,
      .shape = options_.shape,
      .layout = engine_.cache().layout(),
      .token_ids = request.token_ids,
      .page_hashes = PageHashes(options_.identity, spec.cache_salt(), options_.shape.numerics(),
                                request.token_ids),
      .cache_salt = spec.cache_salt(),
      .strict_kv_dtype = options_.strict_kv_dtype,
      .prompt_length = static_cast<int>(spec.prompt_length()),
      .choices = request.choices,
      .vocab_size = engine_.model_config().vocab_size,
      .limits = options_.limits,
  };
  if (spec.has_remaining_ms()) {
    const absl::Duration remaining = absl::Milliseconds(spec.remaining_ms());
    ReceiveLimits& limits = config_->limits;
    limits.reservation_timeout = std::min(limits.reservation_timeout, remaining);
    limits.capability_lifetime = std::min(limits.capability_lifetime, remaining);
  }
}

// take_blocks and release_blocks call the engine without the lock: its functions are thread-safe.
std::shared_ptr<ReceiveDriver> DecodePush::Expect(SequenceId sequence, ThreadGroup& pushes,
                                                  Callbacks callbacks) {
  ReceiveDriver::Callbacks all;
  all.take_blocks = [&engine = engine_, sequence](const ReceiveAction::TakeBlocks& take) {
    engine.OpenReceive(sequence, take.numerics);
  };
  all.release_blocks = [&engine = engine_, sequence](const ReceiveAction::ReleaseBlocks& release) {
    engine.Release(sequence, release.resume_tokens);
  };
  all.committed = std::move(callbacks.committed);
  all.failed = std::move(callbacks.failed);
  all.received = std::move(callbacks.received);
  driver_ = std::make_shared<ReceiveDriver>(*std::move(config_), engine_.cache(), options_.staging,
                                            std::move(all));
  config_.reset();
  pushes.Start([driver = driver_] { driver->Run(); });
  return driver_;
}

void DecodePush::Grant(const std::vector<int32_t>& block_table, int start_token) {
  meter_.Begin();
  if (driver_ != nullptr) driver_->Grant(block_table, start_token);
}

bool DecodePush::Cancel(PushRefused::Reason reason) {
  return driver_ != nullptr && driver_->Cancel(reason);
}

void DecodePush::Received(uint64_t payload_bytes) { meter_.Received(payload_bytes, SteadyNow()); }

void DecodePush::Committed() { meter_.Committed(SteadyNow()); }

absl::Status CheckPusher(const internal::v1::DecodeStart& start, bool secure) {
  const internal::v1::Pusher& pusher = start.pusher();
  if (pusher.worker_id().size() > kMaxNameBytes) {
    return InvalidField("start.pusher.worker_id",
                        absl::StrCat("has more than ", kMaxNameBytes, " bytes"));
  }
  if (!pusher.peer_id().empty()) {
    const absl::StatusOr<Peer> peer = ParsePeer(pusher.peer_id());
    if (!peer.ok()) return InvalidField("start.pusher.peer_id", peer.status().message());
  } else if (secure && !start.prefill_locally()) {
    return InvalidField(
        "start.pusher.peer_id",
        "must be set, since this worker compares it with the certificate of the worker that "
        "pushes; the router has to know it from its own TLS connection");
  }
  return absl::OkStatus();
}

PushRefused::Reason RefusalAfter(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  if (reason == kReasonSuperseded) return PushRefused::REASON_SUPERSEDED;
  if (reason == kReasonDraining) return PushRefused::REASON_DRAINING;
  return PushRefused::REASON_ABORTED;
}

}  // namespace baton
