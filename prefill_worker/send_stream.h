// The client's end of one Push stream: a queue of writes, and the answers one at a time. Its mirror
// at the decode worker is decode_worker/receive_stream.h.
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
#include "common/base/job_pool.h"

namespace baton {

// Thread-safe. Keeps itself alive from Start until gRPC is done with the call.
class SendStream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                         public std::enable_shared_from_this<SendStream> {
 public:
  // Called on gRPC's threads; must not block.
  struct Callbacks {
    // An answer. The next one comes after ReadNext(). An answer that cannot be read comes as an
    // empty message.
    std::function<void(internal::v1::PushResponse)> answered;
    // The end of the stream: called once, after all others. `self` has to be destroyed on a thread
    // that is not gRPC's: the process's last channel may go with it, and gRPC then joins its own
    // threads, the one that calls this among them.
    std::function<void(const grpc::Status&, std::shared_ptr<SendStream> self)> ended;
  };

  // Borrows `jobs`, which hand messages to gRPC; null: Write does.
  SendStream(std::shared_ptr<grpc::Channel> channel, JobPool* jobs, Callbacks callbacks);

  void Start();
  // Queues a message. It is destroyed unsent if the stream has ended or is half closed. Where
  // nothing waits, gRPC has it at once, and writes what the connection takes of it on the thread
  // that brings it: a megabyte takes longer there than the push's machine has for it.
  void Write(const grpc::ByteBuffer& message, bool is_data);
  // Destroys the data messages that wait in the queue.
  void DropQueuedData();
  // Asks for the next answer.
  void ReadNext();
  // Closes the stream for writing once the queue is written.
  void HalfClose();
  void Cancel() { context_.TryCancel(); }

 private:
  struct Queued {
    grpc::ByteBuffer message;
    bool is_data = false;
  };
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  enum class Next { kNothing, kMessage, kEnd };
  // Returns the operation to start now. Unless it is empty, the call cannot end before Give.
  Next TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts the operation, without the lock. The stream may be destroyed by then.
  void Give(Next next);

  const std::shared_ptr<grpc::Channel> channel_;
  JobPool* const jobs_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  Callbacks callbacks_;
  std::shared_ptr<SendStream> self_;

  absl::Mutex mutex_;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);  // bounded by the sender's window
  grpc::ByteBuffer writing_;  // belongs to Give, then to gRPC, while write_in_flight_
  grpc::ByteBuffer answer_;   // belongs to gRPC while a read is in flight
  bool write_in_flight_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_close_ ABSL_GUARDED_BY(mutex_) = false;   // HalfClose was called
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;  // whether gRPC's half-close was started
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;        // no operation may be started any more
};

}  // namespace baton
