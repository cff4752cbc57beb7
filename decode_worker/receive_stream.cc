#include "decode_worker/receive_stream.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/handoff/kv_wire.h"
#include "common/net/access_check.h"
#include "common/rpc/parse_message.h"
#include "common/rpc/status.h"
#include "decode_worker/receive_driver.h"

namespace baton {
namespace {

constexpr absl::Duration kEndTimeout = absl::Seconds(5);

absl::StatusOr<internal::v1::PushRequest> ParseControl(grpc::ByteBuffer& buffer) {
  if (buffer.Length() > kMaxPushControlBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message that carries no KV data has ",
                                                   buffer.Length(), " bytes; at most ",
                                                   kMaxPushControlBytes, " are allowed"));
  }
  internal::v1::PushRequest message;
  BATON_RETURN_IF_ERROR(ParseMessage(buffer, message));
  if (message.has_data()) return InvalidField("data", "must be the first field");
  return message;
}

}  // namespace

ReceiveStream::ReceiveStream(grpc::CallbackServerContext* context, PushStreamId id,
                             Callbacks callbacks, std::shared_ptr<PushRefusals> refusals)
    : context_(context),
      id_(id),
      callbacks_(std::move(callbacks)),
      refusals_(std::move(refusals)) {}

void ReceiveStream::Start() {
  self_ = shared_from_this();
  StartRead(&request_);
}

void ReceiveStream::Send(const internal::v1::PushResponse& message) {
  const internal::v1::PushRefused& refused = message.refused();
  if (refused.reason() == internal::v1::PushRefused::REASON_CAPABILITY) {
    refusals_->Refused(peer_id_, address_, refused.detail());
  }
  const grpc::Slice slice(message.SerializeAsString());
  absl::MutexLock lock(&mutex_);
  outbox_.Push(grpc::ByteBuffer(&slice, 1));
  outbox_.WriteNext(*this);
}

void ReceiveStream::End(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  EndLocked(status);
  outbox_.WriteNext(*this);
}

void ReceiveStream::EndLocked(const absl::Status& status) {
  if (!outbox_.ended()) ending_since_ = SteadyNow();
  outbox_.End(ToGrpcStatus(status));
}

void ReceiveStream::ReadNext() {
  absl::MutexLock lock(&mutex_);
  if (!outbox_.ended()) StartRead(&request_);
}

void ReceiveStream::CancelIfOverdue(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (now > ending_since_ + kEndTimeout) context_->TryCancel();
}

void ReceiveStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  outbox_.Written();
  if (!ok) {
    outbox_.DropAll();
    EndLocked(absl::OkStatus());
  }
  outbox_.WriteNext(*this);
}

void ReceiveStream::OnReadDone(bool ok) {
  if (!std::exchange(heard_, true)) {
    const absl::Status status = callbacks_.heard(ok ? shared_from_this() : nullptr);
    if (!status.ok()) return End(status);
  }
  if (!ok) {
    if (driver_ != nullptr) driver_->PostFromStream(ReceiveEvent::StreamLost{id_});
    return End();
  }
  if (driver_ == nullptr) return Open();
  Dispatch();
}

void ReceiveStream::Open() {
  BATON_FAILPOINT("receive_stream.before_open");
  absl::StatusOr<internal::v1::PushRequest> message = ParseControl(request_);
  request_.Clear();
  internal::v1::PushResponse refusal;
  refusal.mutable_refused()->set_reason(internal::v1::PushRefused::REASON_OUT_OF_RANGE);
  refusal.mutable_refused()->set_detail(message.ok()
                                            ? "the first message of a stream is its open or join"
                                            : std::string(message.status().message()));
  peer_id_ = SpiffeIdOf(*context_->auth_context());
  address_ = context_->peer();
  std::shared_ptr<ReceiveDriver> driver;
  if (message.ok() && (message->has_open() || message->has_join())) {
    internal::v1::PushRefused::Reason reason = internal::v1::PushRefused::REASON_UNKNOWN_ATTEMPT;
    driver = callbacks_.find(message->has_open() ? message->open().key() : message->join().key(),
                             &reason);
    refusal.mutable_refused()->set_reason(reason);
    refusal.mutable_refused()->set_detail("no such attempt is expected here");
  }
  if (driver == nullptr || !driver->AddStream(shared_from_this())) {
    Send(refusal);
    return End();
  }
  absl::MutexLock lock(&mutex_);
  driver_ = std::move(driver);
  driver_->PostFromStream(ReceiveEvent::ControlReceived{id_, *std::move(message), peer_id_});
  if (cancelled_) driver_->PostFromStream(ReceiveEvent::StreamLost{id_});
}

void ReceiveStream::Dispatch() {
  BATON_FAILPOINT("receive_stream.message");
  absl::StatusOr<std::vector<grpc::Slice>> slices = SlicesOf(request_);
  absl::Status status = slices.status();
  if (slices.ok() && IsKvData(*slices)) {
    request_.Clear();
    absl::StatusOr<KvDataMessage> data = DecodeKvData(*std::move(slices));
    if (data.ok()) return driver_->PostFromStream(ReceiveInbox::Data{id_, *std::move(data)});
    status = data.status();
  } else if (slices.ok()) {
    absl::StatusOr<internal::v1::PushRequest> message = ParseControl(request_);
    request_.Clear();
    if (message.ok()) {
      return driver_->PostFromStream(ReceiveEvent::ControlReceived{id_, *std::move(message)});
    }
    status = message.status();
  }
  driver_->PostFromStream(ReceiveEvent::Malformed{id_, std::string(status.message())});
}

// It may run at the same time as the reaction to a read.
void ReceiveStream::OnCancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (driver_ != nullptr) driver_->PostFromStream(ReceiveEvent::StreamLost{id_});
  EndLocked(absl::OkStatus());
  outbox_.WriteNext(*this);
}

void ReceiveStream::OnDone() {
  const std::shared_ptr<ReceiveStream> self = std::move(self_);
  driver_ = nullptr;
  const Callbacks callbacks = std::exchange(callbacks_, {});
  callbacks.done();
}

}  // namespace baton
