// What virtual/ declares: gRPC's reactors of the simulated router.
#include <utility>

#include "common/rpc/status.h"
#include "tests/simulation/virtual/grpc_reactors.h"
#include "tests/simulation/virtual_world.h"

namespace baton {

VirtualWorld& CurrentWorld() {
  thread_local VirtualWorld world;
  return world;
}

}  // namespace baton

namespace grpc {
inline namespace simulated {

using baton::CurrentWorld;

void ClientContext::TryCancel() {
  if (call_ != 0) CurrentWorld().network->Cancel(call_);
}

ClientReactor::~ClientReactor() {
  if (context_ != nullptr && context_->call_ != 0 && !end_.has_value()) {
    CurrentWorld().network->Forget(context_->call_);
  }
}

void ClientReactor::Bind(const Channel& channel, ControlNetwork::Method method,
                         ClientContext& context, const Message* request) {
  address_ = channel.address;
  method_ = method;
  context_ = &context;
  if (request == nullptr) return;
  std::shared_ptr<Message> copy(request->New());
  copy->CopyFrom(*request);
  unsent_.push_back(std::move(copy));
}

void ClientReactor::StartCall() {
  context_->call_ =
      CurrentWorld().network->Open(address_, method_,
                                   {.heard =
                                        [this](const Message& message) {
                                          std::shared_ptr<Message> copy(message.New());
                                          copy->CopyFrom(message);
                                          received_.push_back(std::move(copy));
                                          TryRead();
                                        },
                                    .ended =
                                        [this](const absl::Status& status) {
                                          end_ = baton::ToGrpcStatus(status);
                                          TryRead();
                                          MaybeDone();
                                        }});
  for (auto& message : std::exchange(unsent_, {})) {
    CurrentWorld().network->Send(context_->call_, std::move(message));
  }
}

void ClientReactor::Later(std::function<void()> what) {
  ++operations_;
  CurrentWorld().sim->queue.After(
      1, [this, what = std::move(what), alive = std::weak_ptr<char>(alive_)] {
        if (alive.expired()) return;
        --operations_;
        what();
        if (!alive.expired()) MaybeDone();
      });
}

void ClientReactor::StartRead(Message* into) {
  reading_ = into;
  TryRead();
}

void ClientReactor::TryRead() {
  if (reading_ == nullptr || (received_.empty() && !end_.has_value())) return;
  Message* const into = std::exchange(reading_, nullptr);
  const bool ok = !received_.empty();
  if (ok) {
    into->CopyFrom(*received_.front());
    received_.pop_front();
  }
  Later([this, ok] { OnReadDone(ok); });
}

void ClientReactor::StartWrite(const Message* message) {
  std::shared_ptr<Message> copy(message->New());
  copy->CopyFrom(*message);
  if (context_->call_ == 0) {
    unsent_.push_back(std::move(copy));
  } else if (!end_.has_value()) {
    CurrentWorld().network->Send(context_->call_, std::move(copy));
  }
  Later([this] { OnWriteDone(!end_.has_value()); });
}

void ClientReactor::StartWritesDone() {
  Later([this] { OnWritesDoneDone(!end_.has_value()); });
}

void ClientReactor::RemoveHold() {
  --holds_;
  MaybeDone();
}

void ClientReactor::MaybeDone() {
  if (done_ || !end_.has_value() || holds_ > 0 || operations_ > 0 || reading_ != nullptr) return;
  done_ = true;
  Later([this] { OnDone(*end_); });
}

void CallbackServerContext::TryCancel() {
  if (reactor_ != nullptr) reactor_->Reset();
}

void ServerReactor::Bind(Client client, CallbackServerContext& context) {
  client_ = std::move(client);
  context.reactor_ = this;
}

void ServerReactor::Later(std::function<void()> what) {
  CurrentWorld().sim->queue.After(1, [what = std::move(what), alive = std::weak_ptr<char>(alive_)] {
    if (!alive.expired()) what();
  });
}

void ServerReactor::Cancel() {
  if (cancelled_ || finished_) return;
  cancelled_ = true;
  Later([this] { OnCancel(); });
  Written(false);
}

// The server's side ends it: the client finds its stream broken.
void ServerReactor::Reset() {
  if (cancelled_ || finished_) return;
  client_.end(Status(StatusCode::CANCELLED, "the stream was reset"));
  Cancel();
}

void ServerReactor::StartWrite(const Message* message) {
  writing_ = true;
  if (cancelled_) return Written(false);
  client_.take(*message, [this, alive = std::weak_ptr<char>(alive_)] {
    if (!alive.expired()) Written(true);
  });
}

void ServerReactor::Written(bool ok) {
  if (!std::exchange(writing_, false)) return;
  Later([this, ok] { OnWriteDone(ok); });
}

void ServerReactor::Finish(const Status& status) {
  finished_ = true;
  if (!cancelled_) client_.end(status);
  Later([this] { OnDone(); });
}

}  // namespace simulated
}  // namespace grpc
