#include "decode_worker/decode_push.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/handoff/kv_digest.h"
#include "common/rpc/status.h"

namespace baton {

using internal::v1::PushRefused;

DecodePush::DecodePush(Engine& engine, const DecodeServiceOptions& options)
    : engine_(engine), options_(options), meter_(options.metrics) {}

void DecodePush::Prepare(const internal::v1::SequenceSpec& spec, const SequenceRequest& request) {
  config_ = ReceiveConfig{
      .key = spec.key(),
      .capability = spec.capability(),
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
    absl::Duration& timeout = config_->limits.reservation_timeout;
    timeout = std::min<absl::Duration>(timeout, absl::Milliseconds(spec.remaining_ms()));
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

PushRefused::Reason RefusalAfter(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  if (reason == kReasonSuperseded) return PushRefused::REASON_SUPERSEDED;
  if (reason == kReasonDraining) return PushRefused::REASON_DRAINING;
  return PushRefused::REASON_ABORTED;
}

}  // namespace baton
