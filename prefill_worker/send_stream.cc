#include "prefill_worker/send_stream.h"

#include <utility>
#include <vector>

#include "grpcpp/impl/codegen/proto_utils.h"

namespace baton {
namespace {

constexpr char kMethod[] = "/baton.internal.v1.KvTransferService/Push";

}  // namespace

SendStream::SendStream(std::shared_ptr<grpc::Channel> channel, JobPool* jobs, Callbacks callbacks)
    : channel_(std::move(channel)),
      jobs_(jobs),
      stub_(channel_),
      callbacks_(std::move(callbacks)) {}

void SendStream::Start() {
  self_ = shared_from_this();
  stub_.PrepareBidiStreamingCall(&context_, kMethod, grpc::StubOptions(), this);
  // Other threads start writes and reads. The hold ends with the first read that fails.
  AddHold();
  StartRead(&answer_);
  StartCall();
}

void SendStream::Write(const grpc::ByteBuffer& message, bool is_data) {
  Next next;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_ || half_close_) return;
    queue_.push_back({message, is_data});
    next = TakeNext();
  }
  if (jobs_ == nullptr || !is_data || next == Next::kNothing) return Give(next);
  jobs_->Do([this, next] { Give(next); });
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
  Next next;
  {
    absl::MutexLock lock(&mutex_);
    half_close_ = true;
    next = TakeNext();
  }
  Give(next);
}

SendStream::Next SendStream::TakeNext() {
  if (ended_ || write_in_flight_ || half_closed_) return Next::kNothing;
  if (queue_.empty()) {
    if (!half_close_) return Next::kNothing;
    half_closed_ = true;
    AddHold();
    return Next::kEnd;
  }
  writing_.Swap(&queue_.front().message);
  queue_.pop_front();
  write_in_flight_ = true;
  AddHold();
  return Next::kMessage;
}

// Without the lock, because gRPC writes to the connection meanwhile.
void SendStream::Give(Next next) {
  if (next == Next::kNothing) return;
  if (next == Next::kMessage) {
    StartWrite(&writing_);
  } else {
    StartWritesDone();
  }
  RemoveHold();
}

void SendStream::OnWriteDone(bool ok) {
  Next next = Next::kNothing;
  {
    absl::MutexLock lock(&mutex_);
    write_in_flight_ = false;
    writing_.Clear();
    if (ok) next = TakeNext();
  }
  Give(next);
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
