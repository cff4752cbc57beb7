// The server's end of one Push stream: raw messages in, one at a time, and answers out. Its
// mirror at the prefill worker is prefill_worker/send_stream.h.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/rpc/outbox.h"
#include "decode_worker/push_refusals.h"
#include "decode_worker/receive_events.h"

namespace baton {

class ReceiveDriver;

// Thread-safe. The first message must be a PushOpen or PushJoin with a key for which `find` has a
// driver; all messages from then on go to that driver. Keeps itself alive until gRPC is done
// with the call.
class ReceiveStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public std::enable_shared_from_this<ReceiveStream> {
 public:
  struct Callbacks {
    // Finds the attempt's driver; null, with the reason of the refusal, if there is none.
    std::function<std::shared_ptr<ReceiveDriver>(const internal::v1::AttemptKey&,
                                                 internal::v1::PushRefused::Reason*)>
        find;
    // The first read has ended: the stream, or null when it brought no message. Any status but OK
    // ends the stream.
    std::function<absl::Status(std::shared_ptr<ReceiveStream>)> heard;
    std::function<void()> done;  // called once, after all others
  };

  ReceiveStream(grpc::CallbackServerContext* context, PushStreamId id, Callbacks callbacks,
                std::shared_ptr<PushRefusals> refusals);

  void Start();
  PushStreamId id() const { return id_; }
  void Send(const internal::v1::PushResponse& message);
  // Ends the stream with `status` once the queued answers are written.
  void End(const absl::Status& status = absl::OkStatus());
  // Asks for the next message: the one before was taken over.
  void ReadNext();
  // Cancels a stream whose peer does not take the last answers in time.
  void CancelIfOverdue(absl::Time now);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Open();
  void Dispatch();
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::CallbackServerContext* const context_;
  const PushStreamId id_;
  Callbacks callbacks_;
  const std::shared_ptr<PushRefusals> refusals_;
  std::shared_ptr<ReceiveStream> self_;

  absl::Mutex mutex_;
  // Set once, by the reaction to a read, under the lock. The reactions to reads alone look at it
  // without the lock.
  std::shared_ptr<ReceiveDriver> driver_;
  Outbox<grpc::ByteBuffer> outbox_ ABSL_GUARDED_BY(mutex_);  // bounded by the window's messages
  grpc::ByteBuffer request_;  // belongs to gRPC while a read is in flight
  std::string peer_id_;       // SPIFFE id of the certificate; written before there is a driver
  std::string address_;       // where it comes from; likewise
  bool heard_ = false;        // the first read has ended; written by the reaction to it
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time ending_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace baton
