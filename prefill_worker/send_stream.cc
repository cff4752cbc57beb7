#include "prefill_worker/send_stream.h"

#include <utility>
#include <vector>

#include "grpcpp/impl/codegen/proto_utils.h"

namespace baton {
namespace {

constexpr char kMethod[] = "/baton.internal.v1.KvTransferService/Push";

}  // namespace

SendStream::SendStream(std::shared_ptr<grpc::Channel> channel, Callbacks callbacks)
    : channel_(std::move(channel)), stub_(channel_), callbacks_(std::move(callbacks)) {}

void SendStream::Start() {
  self_ = shared_from_this();
  stub_.PrepareBidiStreamingCall(&context_, kMethod, grpc::StubOptions(), this);
  // Other threads start writes and reads. The hold ends with the first read that fails.
  AddHold();
  StartRead(&answer_);
  StartCall();
}

void SendStream::Write(grpc::ByteBuffer message, bool is_data) {
  absl::MutexLock lock(&mutex_);
  if (ended_ || half_close_) return;
  queue_.push_back({std::move(message), is_data});
  WriteNext();
}

void SendStream::DropQueuedData() {
  absl::MutexLock lock(&mutex_);
  std::deque<Queued> kept;
  for (Queued& queued : queue_) {
    if (!queued.is_data) kept.push_back(std::move(queued));
  }
  queue_ = std::move(kept);
}

void SendStream::ReadNext() {
  absl::MutexLock lock(&mutex_);
  if (!ended_) StartRead(&answer_);
}

void SendStream::HalfClose() {
  absl::MutexLock lock(&mutex_);
  half_close_ = true;
  WriteNext();
}

void SendStream::WriteNext() {
  if (ended_ || write_in_flight_ || half_closed_) return;
  if (queue_.empty()) {
    if (!half_close_) return;
    half_closed_ = true;
    StartWritesDone();
    return;
  }
  writing_.Swap(&queue_.front().message);
  queue_.pop_front();
  write_in_flight_ = true;
  StartWrite(&writing_);
}

void SendStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  write_in_flight_ = false;
  writing_.Clear();
  if (ok) WriteNext();
}

void SendStream::OnReadDone(bool ok) {
  if (ok) {
    internal::v1::PushResponse answer;
    if (!grpc::SerializationTraits<internal::v1::PushResponse>::Deserialize(&answer_, &answer)
             .ok()) {
      answer.Clear();
    }
    answer_.Clear();
    callbacks_.answered(std::move(answer));
    return;
  }
  absl::MutexLock lock(&mutex_);
  ended_ = true;
  queue_.clear();
  RemoveHold();
}

void SendStream::OnDone(const grpc::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    queue_.clear();
    writing_.Clear();
  }
  const Callbacks callbacks = std::exchange(callbacks_, {});
  callbacks.ended(status, std::move(self_));
}

}  // namespace baton
