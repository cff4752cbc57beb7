#include "router/calls/client_call.h"

#include <utility>

namespace baton {
namespace {

bool Joins(const v1::GenerateResponse& last, const v1::GenerateResponse& next) {
  return last.has_chunk() && next.has_chunk() && last.chunk().index() == next.chunk().index();
}

void Join(v1::GenerateResponse* last, v1::GenerateResponse next) {
  std::string text = std::move(*last->mutable_chunk()->mutable_text());
  text += next.chunk().text();
  last->mutable_chunk()->MergeFrom(next.chunk());
  *last->mutable_chunk()->mutable_text() = std::move(text);
}

template <typename Logprobs>
size_t LogprobBytes(const Logprobs& logprobs) {
  size_t bytes = 0;
  for (const v1::TokenLogprob& logprob : logprobs) {
    bytes += sizeof(logprob) + logprob.token().size();
    for (const v1::TopLogprob& top : logprob.top_logprobs()) {
      bytes += sizeof(top) + top.token().size();
    }
  }
  return bytes;
}

// Returns the memory that the response's contents occupy, without the messages themselves.
size_t ContentBytes(const v1::GenerateResponse& response) {
  const v1::GenerateChunk& chunk = response.chunk();
  const v1::GenerateComplete& complete = response.complete();
  const auto ids = static_cast<size_t>(chunk.token_ids_size() + complete.token_ids_size());
  return chunk.text().size() + complete.text().size() + ids * sizeof(uint32_t) +
         LogprobBytes(chunk.logprobs()) + LogprobBytes(complete.logprobs()) +
         LogprobBytes(chunk.prompt_logprobs()) + LogprobBytes(complete.prompt_logprobs());
}

constexpr size_t kMessageBytes = sizeof(v1::GenerateResponse) + sizeof(v1::GenerateChunk);

}  // namespace

ClientCall::ClientCall(EventLoop& loop, std::unique_ptr<ClientWriter> writer)
    : loop_(loop), writer_(std::move(writer)), last_progress_(loop.Now()) {
  writer_->Attach(*this);
}

void ClientCall::Send(v1::GenerateResponse response) {
  if (finishing_ || broken_) return;
  const size_t bytes = ContentBytes(response);
  const size_t waiting = outbox_.size() - (writing_ ? 1 : 0);
  if (waiting > 0 && outbox_.back().bytes < kMaxJoinedBytes &&
      Joins(outbox_.back().response, response)) {
    Join(&outbox_.back().response, std::move(response));
    outbox_.back().bytes += bytes;
    outbox_bytes_ += bytes;
  } else {
    outbox_.push_back({.response = std::move(response), .bytes = kMessageBytes + bytes});
    outbox_bytes_ += kMessageBytes + bytes;
  }
  ++outbox_.back().tokens;
  ++outbox_tokens_;
  WriteNext();
  const bool too_much = outbox_bytes_ > kOutboxHighBytes || outbox_tokens_ > kOutboxHighTokens;
  if (!behind_ && too_much) {
    behind_ = true;
    handlers_.on_behind();
  }
}

void ClientCall::PopFront() {
  outbox_bytes_ -= outbox_.front().bytes;
  outbox_tokens_ -= outbox_.front().tokens;
  outbox_.pop_front();
}

void ClientCall::FinishWith(const absl::Status& status) {
  if (finishing_) return;
  finishing_ = true;
  status_ = status;
  if (!status.ok()) outbox_.resize(writing_ ? 1 : 0);
  WriteNext();
}

void ClientCall::Abort() {
  if (!finished_) writer_->Cancel();
}

void ClientCall::WriteNext() {
  if (writing_ || finished_) return;
  if (!outbox_.empty() && !broken_) {
    writing_ = true;
    writer_->StartWrite(&outbox_.front().response);
  } else if (finishing_) {
    finished_ = true;
    writer_->Finish(status_);
  }
}

void ClientCall::OnWriteDone(bool ok) {
  loop_.PostOrRun([this, ok] {
    writing_ = false;
    last_progress_ = loop_.Now();
    broken_ = broken_ || !ok;
    PopFront();
    while (broken_ && !outbox_.empty()) PopFront();
    WriteNext();
    const bool little = outbox_bytes_ < kOutboxLowBytes && outbox_tokens_ < kOutboxLowTokens;
    if (behind_ && little && !finishing_) {
      behind_ = false;
      handlers_.on_caught_up();
    }
  });
}

void ClientCall::Cancelled(bool client_left) {
  cancelled_.store(true, std::memory_order_relaxed);
  loop_.PostOrRun([this, client_left] { handlers_.on_cancelled(client_left); });
}

void ClientCall::OnDone() {
  loop_.PostOrRun([this] {
    auto on_done = std::move(handlers_.on_done);
    on_done();
  });
}

}  // namespace baton
