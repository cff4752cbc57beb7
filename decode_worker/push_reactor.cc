#include "decode_worker/push_reactor.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/handoff/kv_wire.h"
#include "common/rpc/parse_message.h"
#include "common/rpc/status.h"
#include "decode_worker/attempt_receiver.h"

namespace baton {
namespace {

constexpr absl::Duration kOpenTimeout = absl::Seconds(10);
constexpr absl::Duration kEndTimeout = absl::Seconds(5);

absl::StatusOr<internal::v1::PushRequest> ParseControl(grpc::ByteBuffer& buffer) {
  if (buffer.Length() > kMaxPushControlBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message without data has ", buffer.Length(),
                                                   " bytes, at most ", kMaxPushControlBytes,
                                                   " are allowed"));
  }
  internal::v1::PushRequest message;
  BATON_RETURN_IF_ERROR(ParseMessage(buffer, message));
  if (message.has_data()) return InvalidField("data", "must be the first field");
  return message;
}

}  // namespace

PushReactor::PushReactor(grpc::CallbackServerContext* context, KvReceiver::StreamId id,
                         Callbacks callbacks)
    : context_(context), id_(id), started_(SteadyNow()), callbacks_(std::move(callbacks)) {}

void PushReactor::Start() {
  self_ = shared_from_this();
  StartRead(&request_);
}

void PushReactor::Send(const internal::v1::PushResponse& message) {
  const grpc::Slice slice(message.SerializeAsString());
  absl::MutexLock lock(&mutex_);
  outbox_.Push(grpc::ByteBuffer(&slice, 1));
  outbox_.WriteNext(*this);
}

void PushReactor::End() {
  absl::MutexLock lock(&mutex_);
  EndLocked();
  outbox_.WriteNext(*this);
}

void PushReactor::EndLocked() {
  if (!outbox_.ended()) ending_since_ = SteadyNow();
  outbox_.End(grpc::Status::OK);
}

void PushReactor::ReadNext() {
  absl::MutexLock lock(&mutex_);
  if (!outbox_.ended()) StartRead(&request_);
}

void PushReactor::CancelIfOverdue(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const bool unopened = !opened_ && now > started_ + kOpenTimeout;
  if (unopened || now > ending_since_ + kEndTimeout) context_->TryCancel();
}

void PushReactor::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  outbox_.Written();
  if (!ok) {
    outbox_.DropAll();
    EndLocked();
  }
  outbox_.WriteNext(*this);
}

void PushReactor::OnReadDone(bool ok) {
  if (!ok) {
    if (receiver_ != nullptr) receiver_->Post(KvReceiver::StreamLost{id_});
    return End();
  }
  if (receiver_ == nullptr) return Open();
  Dispatch();
}

void PushReactor::Open() {
  BATON_FAILPOINT("push_reactor.before_open");
  absl::StatusOr<internal::v1::PushRequest> message = ParseControl(request_);
  request_.Clear();
  internal::v1::PushResponse refusal;
  refusal.mutable_refused()->set_reason(internal::v1::PushRefused::REASON_OUT_OF_RANGE);
  refusal.mutable_refused()->set_detail(message.ok()
                                            ? "the first message of a stream is its open or join"
                                            : std::string(message.status().message()));
  std::shared_ptr<AttemptReceiver> receiver;
  if (message.ok() && (message->has_open() || message->has_join())) {
    internal::v1::PushRefused::Reason reason = internal::v1::PushRefused::REASON_UNKNOWN_ATTEMPT;
    receiver = callbacks_.find(message->has_open() ? message->open().key() : message->join().key(),
                               &reason);
    refusal.mutable_refused()->set_reason(reason);
    refusal.mutable_refused()->set_detail("no such attempt is expected here");
  }
  if (receiver == nullptr || !receiver->AddStream(shared_from_this())) {
    Send(refusal);
    return End();
  }
  absl::MutexLock lock(&mutex_);
  opened_ = true;
  receiver_ = std::move(receiver);
  receiver_->Post(KvReceiver::ControlReceived{id_, *std::move(message)});
  if (cancelled_) receiver_->Post(KvReceiver::StreamLost{id_});
}

void PushReactor::Dispatch() {
  BATON_FAILPOINT("push_reactor.message");
  absl::StatusOr<std::vector<grpc::Slice>> slices = SlicesOf(request_);
  absl::Status status = slices.status();
  if (slices.ok() && IsKvData(*slices)) {
    request_.Clear();
    absl::StatusOr<KvDataMessage> data = DecodeKvData(*std::move(slices));
    if (data.ok()) return receiver_->PostData(id_, *std::move(data));
    status = data.status();
  } else if (slices.ok()) {
    absl::StatusOr<internal::v1::PushRequest> message = ParseControl(request_);
    request_.Clear();
    if (message.ok()) {
      return receiver_->Post(KvReceiver::ControlReceived{id_, *std::move(message)});
    }
    status = message.status();
  }
  receiver_->Post(KvReceiver::Malformed{id_, std::string(status.message())});
}

// It may run at the same time as the reaction to a read.
void PushReactor::OnCancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (receiver_ != nullptr) receiver_->Post(KvReceiver::StreamLost{id_});
  EndLocked();
  outbox_.WriteNext(*this);
}

void PushReactor::OnDone() {
  const std::shared_ptr<PushReactor> self = std::move(self_);
  receiver_ = nullptr;
  const Callbacks callbacks = std::exchange(callbacks_, {});
  callbacks.done();
}

}  // namespace baton
