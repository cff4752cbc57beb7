// The decode worker's KvTransferService. It works on raw messages, so that payloads are copied only
// once.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "baton/internal/v1/kv_transfer.grpc.pb.h"
#include "common/base/timed_wait.h"
#include "common/rpc/silent_streams.h"
#include "decode_worker/attempt_registry.h"
#include "decode_worker/decode_service_options.h"
#include "decode_worker/push_refusals.h"
#include "decode_worker/receive_stream.h"

namespace baton {

// Thread-safe. Borrows the registry. A thread of its own, which the destructor joins, cancels
// streams that do not end in time.
class PushService final : public internal::v1::KvTransferService::WithRawCallbackMethod_Push<
                              internal::v1::KvTransferService::Service> {
 public:
  PushService(AttemptRegistry& registry, const DecodeServiceOptions& options);
  ~PushService() override;

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Push(
      grpc::CallbackServerContext* context) override;

 private:
  // The streams that have sent a message. Shared with them, for they may outlive the service.
  struct Streams {
    absl::Mutex mutex;
    std::map<PushStreamId, std::shared_ptr<ReceiveStream>> open ABSL_GUARDED_BY(mutex);
  };
  absl::Status Opened(PushStreamId id, std::shared_ptr<ReceiveStream> stream);
  void Sweep();

  AttemptRegistry& registry_;
  const size_t max_streams_;
  const std::shared_ptr<PushRefusals> refusals_;  // shared with the streams, likewise
  const std::shared_ptr<Streams> streams_ = std::make_shared<Streams>();
  SilentStreams silent_;
  absl::Mutex mutex_;
  PushStreamId next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  TimedNotification stop_;
  std::thread sweeper_;
};

}  // namespace baton
