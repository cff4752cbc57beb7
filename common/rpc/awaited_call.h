// Calls of methods with one message from the client. gRPC itself begins such a call only when it
// has the whole message, and waits for it without bound. A client that sends half a message could
// occupy memory forever. Here the call begins with its headers, as for a stream: the server reads
// the message and ends the call if the message does not come. gRPC also waits without bound until
// the client has read the last bytes of the answer. Here the server ends the call in this case too.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "grpc/grpc.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/support/server_callback.h"

#include "common/rpc/silent_streams.h"
#include "common/rpc/status.h"

namespace baton {

// A call that may be cancelled at any time. Has no effect if gRPC has already ended the call.
class CancellableCall {
 public:
  explicit CancellableCall(grpc::CallbackServerContext& context) : call_(context.c_call()) {
    grpc_call_ref(call_);
  }
  ~CancellableCall() { grpc_call_unref(call_); }
  CancellableCall(const CancellableCall&) = delete;
  CancellableCall& operator=(const CancellableCall&) = delete;
  void Cancel() { grpc_call_cancel(call_, nullptr); }

 private:
  grpc_call* const call_;
};

// Lets the reactor of a unary method answer on the stream that the server sees. `ends` is called
// before the end of the answer is sent.
template <typename Stream, typename Response>
class UnaryAnswer final : public grpc::ServerCallbackUnary {
 public:
  using Reactor = grpc::ServerUnaryReactor;
  UnaryAnswer(Stream& stream, std::function<void()> ends)
      : stream_(stream), ends_(std::move(ends)) {}

  Response* response() { return &response_; }
  void Bind(Reactor* reactor) { this->BindReactor(reactor); }
  void Finish(grpc::Status status) override {
    ends_();
    if (!status.ok()) return stream_.Finish(std::move(status));
    stream_.StartWriteAndFinish(&response_, grpc::WriteOptions(), std::move(status));
  }
  void SendInitialMetadata() override { stream_.StartSendInitialMetadata(); }
  static void OnWriteDone(Reactor& /*reactor*/, bool /*ok*/) {}

 private:
  // gRPC's count of what the call waits for. It is kept for the stream, not here.
  grpc::internal::ServerReactor* reactor() override { return nullptr; }
  void CallOnDone() override {}

  Stream& stream_;
  const std::function<void()> ends_;
  Response response_;
};

// The same for the reactor of a server-streaming method.
template <typename Stream, typename Response>
class StreamAnswer final : public grpc::ServerCallbackWriter<Response> {
 public:
  using Reactor = grpc::ServerWriteReactor<Response>;
  StreamAnswer(Stream& stream, std::function<void()> ends)
      : stream_(stream), ends_(std::move(ends)) {}

  void Bind(Reactor* reactor) { this->BindReactor(reactor); }
  void Finish(grpc::Status status) override {
    ends_();
    stream_.Finish(std::move(status));
  }
  void SendInitialMetadata() override { stream_.StartSendInitialMetadata(); }
  void Write(const Response* message, grpc::WriteOptions options) override {
    stream_.StartWrite(message, options);
  }
  void WriteAndFinish(const Response* message, grpc::WriteOptions options,
                      grpc::Status status) override {
    ends_();
    stream_.StartWriteAndFinish(message, options, std::move(status));
  }
  static void OnWriteDone(Reactor& reactor, bool ok) { reactor.OnWriteDone(ok); }

 private:
  grpc::internal::ServerReactor* reactor() override { return nullptr; }
  void CallOnDone() override {}

  Stream& stream_;
  const std::function<void()> ends_;
};

// One call. `Request` is a Received (receiving_service.h), and says so when the call ends without a
// message. `AnswerKind` is UnaryAnswer or StreamAnswer. Thread-safe; keeps itself and the response
// alive until gRPC is done with the call. The message belongs to the handler, so that a call that
// is refused and ends later keeps no message.
template <typename Request, typename Response, template <typename, typename> typename AnswerKind>
class AwaitedCall final
    : public grpc::ServerBidiReactor<Request, Response>,
      public std::enable_shared_from_this<AwaitedCall<Request, Response, AnswerKind>> {
 public:
  using Answer = AnswerKind<grpc::ServerBidiReactor<Request, Response>, Response>;
  using Reactor = typename Answer::Reactor;
  // Makes the reactor of a call that waits for no message any more.
  using Handle =
      std::function<Reactor*(grpc::CallbackServerContext*, std::unique_ptr<Request>, Answer&)>;

  // What gRPC calls for each call of a method. Borrows `silent`, which ends calls whose message
  // does not come, and `unread`, which ends calls whose clients do not take the end of the answer.
  static grpc::internal::MethodHandler* MakeHandler(SilentStreams& silent, SilentStreams& unread,
                                                    Handle handle) {
    return new grpc::internal::CallbackBidiHandler<Request, Response>(
        [&silent, &unread, handle = std::move(handle)](grpc::CallbackServerContext* context) {
          const auto call = std::make_shared<AwaitedCall>(silent, unread, handle, context);
          call->Start();
          return call.get();
        });
  }

  AwaitedCall(SilentStreams& silent, SilentStreams& unread, const Handle& handle,
              grpc::CallbackServerContext* context)
      : silent_(silent),
        unread_(unread),
        handle_(handle),
        context_(context),
        answer_(*this, [this] { BeginEnd(); }) {}

 private:
  void Start() {
    self_ = this->shared_from_this();
    id_ = silent_.Add([weak = this->weak_from_this()](const absl::Status& status) {
      if (const auto call = weak.lock(); call != nullptr) call->EndAwaiting(status);
    });
    this->StartRead(request_.get());
  }
  void OnReadDone(bool ok) override {
    silent_.Spoke(id_);
    const bool cancelled_before = !ok && context_->IsCancelled();
    if (cancelled_before) return EndAwaiting(absl::CancelledError("the call was cancelled"));
    if (!ok)
      request_->status = absl::InvalidArgumentError("the call ended without a request message");
    if (!awaiting_.exchange(false)) return;
    Reactor* const reactor = handle_(context_, std::move(request_), answer_);
    reactor_ = reactor;
    const bool cancelled = handled_or_cancelled_.exchange(true);
    answer_.Bind(reactor);
    if (cancelled) reactor->OnCancel();
  }
  void OnWriteDone(bool ok) override { Answer::OnWriteDone(*reactor_.load(), ok); }
  void OnCancel() override {
    const bool handled = handled_or_cancelled_.exchange(true);
    if (handled) reactor_.load()->OnCancel();
  }
  void OnDone() override {
    unread_.Spoke(end_id_);
    if (Reactor* const reactor = reactor_; reactor != nullptr) reactor->OnDone();
    self_.reset();
  }

  // The end of the answer is about to be sent, so gRPC is not done with the call yet.
  void BeginEnd() {
    end_id_ = unread_.Add([call = std::make_shared<CancellableCall>(*context_)](
                              const absl::Status& /*status*/) { call->Cancel(); });
  }
  void EndAwaiting(const absl::Status& status) {
    if (awaiting_.exchange(false)) this->Finish(ToGrpcStatus(status));
  }

  SilentStreams& silent_;
  SilentStreams& unread_;
  const Handle& handle_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<AwaitedCall> self_;
  uint64_t id_ = 0;
  std::atomic<uint64_t> end_id_ = 0;  // 0: the end of the answer is not sent yet
  std::unique_ptr<Request> request_ = std::make_unique<Request>();  // null once it is handled
  Answer answer_;
  std::atomic<bool> awaiting_ = true;        // neither handled nor ended
  std::atomic<Reactor*> reactor_ = nullptr;  // null before the message has come
  // Set when the reactor is there, and when the call is cancelled. The second of the two cancels
  // the reactor.
  std::atomic<bool> handled_or_cancelled_ = false;
};

}  // namespace baton
