#include "router/calls/worker_calls.h"

namespace baton {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;

DecodeClientCall::DecodeClientCall(EventLoop& loop, CallHandlers<DecodeResponse> handlers)
    : loop_(loop), handlers_(std::move(handlers)) {}

void DecodeClientCall::Begin(internal::v1::DecodeService::StubInterface& stub,
                             DecodeRequest start) {
  stub.async()->Decode(&context_, this);
  AddHold();
  Send(std::move(start));
  StartRead(&response_);
  StartCall();
}

void DecodeClientCall::Send(DecodeRequest message) {
  if (over_ || closing_) return;
  outbox_.push_back(std::move(message));
  WriteNext();
}

void DecodeClientCall::Close() {
  if (over_ || closing_) return;
  closing_ = true;
  WantTokens(true);
  WriteNext();
}

void DecodeClientCall::Cancel() {
  context_.TryCancel();
  WantTokens(true);  // the end comes with the last read
}

void DecodeClientCall::WantTokens(bool want) {
  wants_tokens_ = want;
  if (!want || reading_) return;
  reading_ = true;
  StartRead(&response_);
}

void DecodeClientCall::WriteNext() {
  if (over_ || writing_) return;
  if (!outbox_.empty()) {
    writing_ = true;
    StartWrite(&outbox_.front());
  } else if (closing_) {
    writing_ = true;
    StartWritesDone();
  }
}

void DecodeClientCall::OnReadDone(bool ok) {
  loop_.PostOrRun([this, ok] {
    if (!ok) {
      over_ = true;
      return RemoveHold();
    }
    const auto& tokens = response_.tokens().tokens();
    const bool more_tokens = !tokens.empty() && !tokens.rbegin()->ends_sequence();
    handlers_.on_message(response_);
    reading_ = wants_tokens_ || !more_tokens;
    if (reading_) StartRead(&response_);
  });
}

void DecodeClientCall::OnWriteDone(bool ok) {
  loop_.PostOrRun([this, ok] {
    writing_ = false;
    outbox_.pop_front();
    if (ok) WriteNext();  // otherwise the stream is broken, which the pending read tells
  });
}

void DecodeClientCall::OnWritesDoneDone(bool) {}  // writing_ stays: nothing can follow

void DecodeClientCall::OnDone(const grpc::Status& status) {
  loop_.PostOrRun([this, end = FromGrpcStatus(status)] {
    auto on_end = std::move(handlers_.on_end);
    on_end(end);
  });
}

}  // namespace baton
