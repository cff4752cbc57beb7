#include "router/client_call.h"

#include <utility>

#include "common/base/clock.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

bool Joins(const v1::GenerateResponse& last, const v1::GenerateResponse& next) {
  return last.has_chunk() && next.has_chunk() && last.chunk().index() == next.chunk().index();
}

void Join(v1::GenerateResponse* last, v1::GenerateResponse next) {
  const std::string text = last->chunk().text() + next.chunk().text();
  last->mutable_chunk()->MergeFrom(next.chunk());
  last->mutable_chunk()->set_text(text);
}

}  // namespace

ClientCall::ClientCall(EventLoop& loop, grpc::CallbackServerContext* context)
    : loop_(loop), context_(context), last_progress_(SteadyNow()) {}

void ClientCall::Send(v1::GenerateResponse response) {
  if (finishing_ || broken_) return;
  outbox_bytes_ += response.ByteSizeLong();
  const size_t waiting = outbox_.size() - (writing_ ? 1 : 0);
  if (waiting > 0 && Joins(outbox_.back(), response)) {
    Join(&outbox_.back(), std::move(response));
  } else {
    outbox_.push_back(std::move(response));
  }
  WriteNext();
  if (!behind_ && outbox_bytes_ > kOutboxHighBytes) {
    behind_ = true;
    handlers_.on_behind();
  }
}

void ClientCall::FinishWith(const absl::Status& status) {
  if (finishing_) return;
  finishing_ = true;
  status_ = status;
  if (!status.ok()) outbox_.resize(writing_ ? 1 : 0);
  WriteNext();
}

void ClientCall::Abort() {
  if (!finished_) context_->TryCancel();
}

void ClientCall::WriteNext() {
  if (writing_ || finished_) return;
  if (!outbox_.empty() && !broken_) {
    writing_ = true;
    StartWrite(&outbox_.front());
  } else if (finishing_) {
    finished_ = true;
    Finish(ToGrpcStatus(status_));
  }
}

void ClientCall::OnWriteDone(bool ok) {
  loop_.PostOrRun([this, ok] {
    writing_ = false;
    last_progress_ = SteadyNow();
    broken_ = broken_ || !ok;
    outbox_.pop_front();
    if (broken_) outbox_.clear();
    outbox_bytes_ = 0;
    for (const v1::GenerateResponse& response : outbox_) outbox_bytes_ += response.ByteSizeLong();
    WriteNext();
    if (behind_ && outbox_bytes_ < kOutboxLowBytes && !finishing_) {
      behind_ = false;
      handlers_.on_caught_up();
    }
  });
}

void ClientCall::OnCancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  loop_.PostOrRun([this] { handlers_.on_cancelled(); });
}

void ClientCall::OnDone() {
  loop_.PostOrRun([this] {
    auto on_done = std::move(handlers_.on_done);
    on_done();
  });
}

RefusedGenerate::RefusedGenerate(const absl::Status& status) { Finish(ToGrpcStatus(status)); }

}  // namespace baton
