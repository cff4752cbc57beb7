#include "router/calls/worker_calls.h"

namespace baton {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;

DecodeClientCall::DecodeClientCall(EventLoop& loop, CallHandlers<DecodeResponse> handlers)
    : loop_(loop), handlers_(std::move(handlers)) {}

void DecodeClientCall::Begin(std::unique_ptr<DecodeStream> stream, DecodeRequest start) {
  stream_ = std::move(stream);
  Send(std::move(start));
  stream_->StartRead(&response_);
  stream_->Start();
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
  stream_->Cancel();
  WantTokens(true);  // the end comes with the last read
}

void DecodeClientCall::WantTokens(bool want) {
  wants_tokens_ = want;
  if (!want || reading_) return;
  reading_ = true;
  stream_->StartRead(&response_);
}

void DecodeClientCall::WriteNext() {
  if (over_ || writing_) return;
  if (!outbox_.empty()) {
    writing_ = true;
    stream_->StartWrite(&outbox_.front());
  } else if (closing_) {
    writing_ = true;
    stream_->StartWritesDone();
  }
}

void DecodeClientCall::OnReadDone(bool ok) {
  loop_.PostOrRun([this, ok] {
    if (!ok) {
      over_ = true;
      return stream_->NoMoreReads();
    }
    const auto& tokens = response_.tokens().tokens();
    const bool more_tokens = !tokens.empty() && !tokens.rbegin()->ends_sequence();
    handlers_.on_message(response_);
    reading_ = wants_tokens_ || !more_tokens;
    if (reading_) stream_->StartRead(&response_);
  });
}

void DecodeClientCall::OnWriteDone(bool ok) {
  loop_.PostOrRun([this, ok] {
    writing_ = false;
    outbox_.pop_front();
    if (ok) WriteNext();  // otherwise the pending read reports the broken stream
  });
}

void DecodeClientCall::OnDone(const absl::Status& status) {
  loop_.PostOrRun([this, status] {
    auto on_end = std::move(handlers_.on_end);
    on_end(status);
  });
}

}  // namespace baton
