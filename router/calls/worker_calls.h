// Calls that the router makes to workers, driven from the event loop.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "baton/internal/v1/decode.pb.h"
#include "router/calls/event_loop.h"
#include "router/calls/worker_rpcs.h"

namespace baton {

// The callbacks of a call to its owner, on the loop's thread. `on_end` is called exactly once and
// last; only then may the owner destroy the call. The next message is read after `on_message` has
// returned, so at most one is under way.
template <typename Response>
struct CallHandlers {
  std::function<void(Response&)> on_message;
  std::function<void(const absl::Status&)> on_end;
};

// A call that is answered by a stream. Thread rule: the loop's thread, except for the stream's
// callbacks.
template <typename Response>
class StreamingCall final : public StreamEvents {
 public:
  StreamingCall(EventLoop& loop, CallHandlers<Response> handlers)
      : loop_(loop), handlers_(std::move(handlers)) {}

  // REQUIRES: this call receives the events of `stream`.
  void Begin(std::unique_ptr<ReadStream<Response>> stream) {
    stream_ = std::move(stream);
    stream_->StartRead(&response_);
    stream_->Start();
  }
  // REQUIRES: after Begin.
  void Cancel() { stream_->Cancel(); }
  // The SPIFFE id in the worker's certificate; empty without TLS. REQUIRES: called in on_message.
  std::string PeerId() const { return stream_->PeerId(); }
  // Returns ReadStream::PeerAddress. REQUIRES: called in on_message.
  std::string PeerAddress() const { return stream_->PeerAddress(); }

 private:
  void OnReadDone(bool ok) override {
    loop_.PostOrRun([this, ok] {
      if (!ok) return stream_->NoMoreReads();
      handlers_.on_message(response_);
      stream_->StartRead(&response_);
    });
  }
  void OnDone(const absl::Status& status) override {
    loop_.PostOrRun([this, status] {
      auto on_end = std::move(handlers_.on_end);
      on_end(status);
    });
  }

  EventLoop& loop_;
  CallHandlers<Response> handlers_;
  std::unique_ptr<ReadStream<Response>> stream_;
  Response response_;
};

// DecodeService.Decode. As StreamingCall, with a queue of messages to send (one start, a stop for
// each choice, a pause or go-on at a time).
class DecodeClientCall final : public StreamEvents {
 public:
  DecodeClientCall(EventLoop& loop, CallHandlers<internal::v1::DecodeResponse> handlers);

  // REQUIRES: this call receives the events of `stream`.
  void Begin(std::unique_ptr<DecodeStream> stream, internal::v1::DecodeRequest start);
  // REQUIRES, for all of these: after Begin.
  void Send(internal::v1::DecodeRequest message);
  // No more messages follow, once those before are sent.
  void Close();
  void Cancel();
  // Whether tokens are wanted. While they are not, nothing is read after some until they are again,
  // but for the end after the last: what a worker sends all the same does not pile up here.
  void WantTokens(bool want);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const absl::Status& status) override;
  void WriteNext();

  EventLoop& loop_;
  CallHandlers<internal::v1::DecodeResponse> handlers_;
  std::unique_ptr<DecodeStream> stream_;
  internal::v1::DecodeResponse response_;
  std::deque<internal::v1::DecodeRequest> outbox_;  // the first is being written while writing_
  bool writing_ = false;  // for good once the last message was said to be sent
  bool wants_tokens_ = true;
  bool reading_ = true;  // false: the next read is put off
  bool closing_ = false;
  bool over_ = false;  // the last read was answered: nothing more may be started
};

}  // namespace baton
