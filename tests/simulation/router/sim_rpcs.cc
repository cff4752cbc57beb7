#include "tests/simulation/router/sim_rpcs.h"

#include <deque>
#include <functional>
#include <optional>

#include "common/rpc/status.h"

namespace baton {
namespace {

using Message = ControlNetwork::Message;
using Method = ControlNetwork::Method;

std::shared_ptr<Message> Copy(const Message& message) {
  std::shared_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  return copy;
}

// What streams of every type have in common. As gRPC does it: events come in turns of their own,
// and the end after the answers to all that was started.
class SimStream {
 public:
  SimStream(Sim& sim, ControlNetwork& network, std::string address, Method method,
            StreamEvents& events)
      : sim_(sim),
        network_(network),
        address_(std::move(address)),
        method_(method),
        events_(events) {}
  ~SimStream() {
    if (call_ != 0 && !end_.has_value()) network_.Forget(call_);
  }
  SimStream(const SimStream&) = delete;
  SimStream& operator=(const SimStream&) = delete;

  // Told of each message that is read.
  void SetOnRead(std::function<void(const Message&)> on_read) { on_read_ = std::move(on_read); }
  void SendFirst(const Message& request) { unsent_.push_back(Copy(request)); }
  void Start() {
    call_ = network_.Open(address_, method_,
                          {.heard =
                               [this](const Message& message) {
                                 received_.push_back(Copy(message));
                                 TryRead();
                               },
                           .ended =
                               [this](const absl::Status& status) {
                                 end_ = FromGrpcStatus(ToGrpcStatus(status));
                                 TryRead();
                                 MaybeDone();
                               }});
    for (auto& message : std::exchange(unsent_, {})) network_.Send(call_, std::move(message));
  }
  void StartRead(Message* into) {
    reading_ = into;
    TryRead();
  }
  void StartWrite(const Message& message) {
    if (call_ == 0) {
      unsent_.push_back(Copy(message));
    } else if (!end_.has_value()) {
      network_.Send(call_, Copy(message));
    }
    Later([this] { events_.OnWriteDone(!end_.has_value()); });
  }
  void StartWritesDone() {
    Later([] {});
  }
  void NoMoreReads() {
    reads_may_follow_ = false;
    MaybeDone();
  }
  void Cancel() {
    if (call_ != 0) network_.Cancel(call_);
  }
  const std::string& address() const { return address_; }

 private:
  void Later(std::function<void()> what) {
    ++operations_;
    sim_.queue.After(1, [this, what = std::move(what), alive = std::weak_ptr<char>(alive_)] {
      if (alive.expired()) return;
      --operations_;
      what();
      if (!alive.expired()) MaybeDone();
    });
  }
  void TryRead() {
    if (reading_ == nullptr || (received_.empty() && !end_.has_value())) return;
    Message* const into = std::exchange(reading_, nullptr);
    const bool ok = !received_.empty();
    if (ok) {
      into->CopyFrom(*received_.front());
      received_.pop_front();
    }
    Later([this, ok, into] {
      if (ok && on_read_) on_read_(*into);
      events_.OnReadDone(ok);
    });
  }
  void MaybeDone() {
    if (done_ || !end_.has_value() || reads_may_follow_ || operations_ > 0) return;
    if (reading_ != nullptr) return;
    done_ = true;
    Later([this] { events_.OnDone(*end_); });
  }

  Sim& sim_;
  ControlNetwork& network_;
  const std::string address_;
  const Method method_;
  StreamEvents& events_;
  std::function<void(const Message&)> on_read_;
  ControlNetwork::CallId call_ = 0;                    // 0: not started
  std::deque<std::shared_ptr<const Message>> unsent_;  // before Start
  std::deque<std::shared_ptr<Message>> received_;
  Message* reading_ = nullptr;
  int operations_ = 0;  // those whose answers are on their way
  bool reads_may_follow_ = true;
  std::optional<absl::Status> end_;
  bool done_ = false;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

// A stream of the router's types: `Interface` is ReadStream<Response> or DecodeStream.
template <typename Interface, typename Response>
class TypedStream : public Interface {
 public:
  template <typename... Args>
  explicit TypedStream(Args&&... args) : stream_(std::forward<Args>(args)...) {}
  SimStream& stream() { return stream_; }

  void Start() override { stream_.Start(); }
  void StartRead(Response* response) override { stream_.StartRead(response); }
  void NoMoreReads() override { stream_.NoMoreReads(); }
  void Cancel() override { stream_.Cancel(); }
  std::string PeerId() const override { return stream_.address(); }
  std::string PeerAddress() const override { return stream_.address(); }

 private:
  SimStream stream_;
};

template <typename Response>
using SimReadStream = TypedStream<ReadStream<Response>, Response>;

class SimDecodeStream final : public TypedStream<DecodeStream, internal::v1::DecodeResponse> {
 public:
  using TypedStream::TypedStream;
  void StartWrite(const internal::v1::DecodeRequest* message) override {
    stream().StartWrite(*message);
  }
  void StartWritesDone() override { stream().StartWritesDone(); }
};

}  // namespace

std::unique_ptr<ReadStream<internal::v1::WatchResponse>> SimWorkerRpcs::Watch(
    StreamEvents& events) {
  auto stream = std::make_unique<SimReadStream<internal::v1::WatchResponse>>(
      sim_, network_, address_, Method::kWatch, events);
  stream->stream().SendFirst(internal::v1::WatchRequest());
  stream->stream().SetOnRead([watched = watched_](const Message& message) {
    watched(static_cast<const internal::v1::WatchResponse&>(message));
  });
  return stream;
}

std::unique_ptr<ReadStream<internal::v1::PrefillResponse>> SimWorkerRpcs::Prefill(
    const internal::v1::PrefillRequest& request, const TraceContext* /*trace*/,
    StreamEvents& events) {
  auto stream = std::make_unique<SimReadStream<internal::v1::PrefillResponse>>(
      sim_, network_, address_, Method::kPrefill, events);
  stream->stream().SendFirst(request);
  return stream;
}

std::unique_ptr<DecodeStream> SimWorkerRpcs::Decode(const TraceContext* /*trace*/,
                                                    StreamEvents& events) {
  return std::make_unique<SimDecodeStream>(sim_, network_, address_, Method::kDecode, events);
}

}  // namespace baton
