// The client's end of one Push call: a write queue and the answers, one at a time.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"

#include "baton/internal/v1/kv_transfer.pb.h"

namespace baton {

// Thread-safe. Keeps itself alive from Start until gRPC is done with the call.
class PushStream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                         public std::enable_shared_from_this<PushStream> {
 public:
  // Called on gRPC's threads; must not block.
  struct Callbacks {
    // One answer; the next comes after ReadNext(). What cannot be read is an empty message.
    std::function<void(internal::v1::PushResponse)> answered;
    // Once, the last call. `self` is to be destroyed on another thread than gRPC's: with it may go
    // the process' last channel, and gRPC then joins its threads, the one of this call among them.
    std::function<void(const grpc::Status&, std::shared_ptr<PushStream> self)> ended;
  };

  PushStream(std::shared_ptr<grpc::Channel> channel, Callbacks callbacks);

  void Start();
  // Queued behind what was queued before. Dropped (destroyed) once the stream has ended.
  void Write(grpc::ByteBuffer message, bool is_data);
  // Destroys data messages that wait in the queue.
  void DropQueuedData();
  void ReadNext();
  void HalfClose();  // after what is queued
  void Cancel() { context_.TryCancel(); }

 private:
  struct Queued {
    grpc::ByteBuffer message;
    bool is_data = false;
  };
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  Callbacks callbacks_;
  std::shared_ptr<PushStream> self_;

  absl::Mutex mutex_;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);  // bounded by the sender's window
  grpc::ByteBuffer writing_;                          // gRPC's while write_in_flight_
  grpc::ByteBuffer answer_;                           // gRPC's while a read is in flight
  bool write_in_flight_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_close_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // nothing may be started any more
};

}  // namespace baton
