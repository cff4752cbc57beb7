// Services that parse the messages that they receive. gRPC itself would answer a request that it
// cannot parse with UNIMPLEMENTED and no text, and would take such a message of a stream for its
// end.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/support/server_callback.h"

#include "common/base/check.h"
#include "common/rpc/awaited_call.h"
#include "common/rpc/limits.h"
#include "common/rpc/parse_message.h"
#include "common/rpc/silent_streams.h"

namespace baton {

// How long the client of a call with one message may take to read the end of its answer: the whole
// answer of a unary method, the status of a stream.
inline constexpr absl::Duration kAnswerTimeout = absl::Seconds(60);
// Answers of one service that clients have not taken yet. Beyond it the oldest call is ended.
inline constexpr size_t kMaxUnreadAnswers = 1 << 16;

// A received message and whether it could be parsed.
template <typename Message>
struct Received {
  Message message;      // unspecified unless `status` is OK
  absl::Status status;  // status of ParseMessage
};

// Base class of a service. `Generated` is the class that protoc generates for it. The
// constructor of the derived class adds every method; gRPC's threads then call them. A method owns
// its message.
template <typename Generated>
class ReceivingService : public Generated::Service {
 protected:
  // `awaited` bounds how long, and how many, calls of methods with one message wait for it;
  // `unread` bounds the same of calls whose client has not taken the end of the answer.
  explicit ReceivingService(const SilentStreams::Limits& awaited = {.time = kMessageTimeout},
                            const SilentStreams::Limits& unread = {.time = kAnswerTimeout,
                                                                   .streams = kMaxUnreadAnswers})
      : awaited_(awaited), unread_(unread) {}

  template <typename Derived, typename Request, typename Response>
  void Add(const std::string& method,
           grpc::ServerUnaryReactor* (Derived::*handle)(grpc::CallbackServerContext*,
                                                        std::unique_ptr<Received<Request>>,
                                                        Response*)) {
    using Call = AwaitedCall<Received<Request>, Response, UnaryAnswer>;
    AddAwaited<Request, Call>(method, [this, handle](grpc::CallbackServerContext* context,
                                                     std::unique_ptr<Received<Request>> request,
                                                     typename Call::Answer& answer) {
      return (static_cast<Derived*>(this)->*handle)(context, std::move(request), answer.response());
    });
  }
  template <typename Derived, typename Request, typename Response>
  void Add(const std::string& method,
           grpc::ServerWriteReactor<Response>* (Derived::*handle)(
               grpc::CallbackServerContext*, std::unique_ptr<Received<Request>>)) {
    using Call = AwaitedCall<Received<Request>, Response, StreamAnswer>;
    AddAwaited<Request, Call>(
        method, [this, handle](grpc::CallbackServerContext* context,
                               std::unique_ptr<Received<Request>> request, typename Call::Answer&) {
          return (static_cast<Derived*>(this)->*handle)(context, std::move(request));
        });
  }
  template <typename Derived, typename Request, typename Response>
  void Add(const std::string& method, grpc::ServerBidiReactor<Received<Request>, Response>* (
                                          Derived::*handle)(grpc::CallbackServerContext*)) {
    this->MarkMethodCallback(IndexOf<Request>(method),
                             new grpc::internal::CallbackBidiHandler<Received<Request>, Response>(
                                 std::bind_front(handle, static_cast<Derived*>(this))));
  }

 private:
  template <typename Request, typename Call, typename Handle>
  void AddAwaited(const std::string& method, Handle handle) {
    const int index = IndexOf<Request>(method);
    this->MarkMethodStreamed(index, nullptr);  // so that gRPC does not wait for the message
    this->MarkMethodCallback(index, Call::MakeHandler(awaited_, unread_, std::move(handle)));
  }
  template <typename Request>
  int IndexOf(const std::string& name) {
    const google::protobuf::MethodDescriptor* method =
        google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
            absl::StrCat(Generated::service_full_name(), ".", name));
    BATON_CHECK(method != nullptr && method->input_type() == Request::descriptor(),
                "a method by the name and with the request of its proto");
    return method->index();
  }

  SilentStreams awaited_;
  SilentStreams unread_;
};

}  // namespace baton

namespace grpc {

// Lets gRPC deserialise a Received. It always succeeds: `status` reports a fault to the methods.
template <typename Message>
class SerializationTraits<baton::Received<Message>> {
 public:
  static Status Deserialize(ByteBuffer* bytes, baton::Received<Message>* received) {
    received->status = baton::ParseMessage(*bytes, received->message);
    bytes->Clear();  // gRPC's handlers forget the buffer after this call, without freeing it
    return Status::OK;
  }
};

}  // namespace grpc
