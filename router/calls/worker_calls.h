// Calls that the router makes to workers, driven from the event loop.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"

#include "baton/internal/v1/decode.grpc.pb.h"
#include "common/rpc/status.h"
#include "router/calls/event_loop.h"

namespace baton {

// What a call tells its owner, on the loop's thread. `on_end` comes exactly once and last; the
// owner may destroy the call in it, and never before. The next message is read when `on_message`
// has returned: at most one is on the way.
template <typename Response>
struct CallHandlers {
  std::function<void(Response&)> on_message;
  std::function<void(const absl::Status&)> on_end;
};

// A call that is answered by a stream. All but gRPC's own callbacks on the loop's thread.
template <typename Response>
class StreamingCall : public grpc::ClientReadReactor<Response> {
 public:
  StreamingCall(EventLoop& loop, CallHandlers<Response> handlers)
      : loop_(loop), handlers_(std::move(handlers)) {}

  grpc::ClientContext& context() { return context_; }
  // After the stub's async()->Method(&context(), request, this).
  void Begin() {
    // Reads are started from outside gRPC's callbacks: the hold keeps OnDone back until the last
    // one is answered.
    this->AddHold();
    this->StartRead(&response_);
    this->StartCall();
  }
  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    loop_.PostOrRun([this, ok] {
      if (!ok) return this->RemoveHold();
      handlers_.on_message(response_);
      this->StartRead(&response_);
    });
  }
  void OnDone(const grpc::Status& status) override {
    loop_.PostOrRun([this, end = FromGrpcStatus(status)] {
      auto on_end = std::move(handlers_.on_end);
      on_end(end);
    });
  }

  EventLoop& loop_;
  CallHandlers<Response> handlers_;
  grpc::ClientContext context_;
  Response response_;
};

// DecodeService.Decode. As StreamingCall, with a queue of messages to send (one start, a stop for
// each choice, a pause or go-on at a time).
class DecodeClientCall final
    : public grpc::ClientBidiReactor<internal::v1::DecodeRequest, internal::v1::DecodeResponse> {
 public:
  DecodeClientCall(EventLoop& loop, CallHandlers<internal::v1::DecodeResponse> handlers);

  void Begin(internal::v1::DecodeService::StubInterface& stub, internal::v1::DecodeRequest start);
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
  void OnWritesDoneDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void WriteNext();

  EventLoop& loop_;
  CallHandlers<internal::v1::DecodeResponse> handlers_;
  grpc::ClientContext context_;
  internal::v1::DecodeResponse response_;
  std::deque<internal::v1::DecodeRequest> outbox_;  // the first is being written while writing_
  bool writing_ = false;
  bool wants_tokens_ = true;
  bool reading_ = true;  // false: the next read is put off
  bool closing_ = false;
  bool over_ = false;  // the last read was answered: nothing more may be started
};

}  // namespace baton
