// The push that a Decode call expects: it writes the KV of the call's sequence into its blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "baton/internal/v1/decode.pb.h"
#include "common/base/thread_group.h"
#include "common/engine/engine.h"
#include "decode_worker/decode_service_options.h"
#include "decode_worker/receive_driver.h"
#include "decode_worker/receive_meter.h"

namespace baton {

// Thread rule: not thread-safe; the lock of its call guards it. Borrows the engine and the options.
class DecodePush {
 public:
  // Called on the push's thread, without a lock. They keep the call alive, and so what the push
  // borrows.
  struct Callbacks {
    std::function<void(const ReceiveAction::CommitSequence&)> committed;
    std::function<void(const absl::Status&)> failed;
    std::function<void(uint64_t)> received;  // gets the payload bytes of a message
  };

  DecodePush(Engine& engine, const DecodeServiceOptions& options);

  // Sets the properties and the pusher of the expected push. `request` is the checked form of
  // start.sequence.
  void Prepare(const internal::v1::DecodeStart& start, const SequenceRequest& request);
  // Begins to wait for the push, in a thread of `pushes`. Returns its driver, to which the
  // caller adds streams. The push takes the engine's blocks of `sequence` and gives them back.
  // REQUIRES: Prepare was called; to be called once.
  std::shared_ptr<ReceiveDriver> Expect(SequenceId sequence, ThreadGroup& pushes,
                                        Callbacks callbacks);
  // The engine has taken the blocks.
  void Grant(const std::vector<int32_t>& block_table, int start_token);
  // Ends the push. False: no push is under way, so the caller gives the blocks back. True: the push
  // gives them back, and decides which pages are retained for a higher attempt.
  [[nodiscard]] bool Cancel(internal::v1::PushRefused::Reason reason);

  // Count the events of the push in the worker's metrics.
  void Received(uint64_t payload_bytes);
  void Committed();
  void Failed(const absl::Status& status) { meter_.Failed(status); }
  // The push is no longer under way.
  void End() { meter_.End(); }

  // Lets go of the driver, which the caller destroys without the lock: it may be the last to hold
  // the call.
  std::shared_ptr<ReceiveDriver> Take() { return std::move(driver_); }

 private:
  Engine& engine_;
  const DecodeServiceOptions& options_;
  std::optional<ReceiveConfig> config_;    // until the push is expected
  std::shared_ptr<ReceiveDriver> driver_;  // null unless the push is expected
  ReceiveMeter meter_;
};

// INVALID_ARGUMENT, which names the field, if `start` does not name a valid pusher. `secure`:
// whether this worker has TLS, so that the pusher's certificate is compared.
absl::Status CheckPusher(const internal::v1::DecodeStart& start, bool secure);

// Returns the reason of refusal for the push of a call that ended with `status`.
internal::v1::PushRefused::Reason RefusalAfter(const absl::Status& status);

}  // namespace baton
