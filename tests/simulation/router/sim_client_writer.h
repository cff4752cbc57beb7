// The router's end of a simulated client's call.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"

#include "baton/v1/generation.pb.h"
#include "common/rpc/status.h"
#include "router/calls/client_call.h"
#include "tests/simulation/event_queue.h"

namespace baton {

class SimClientWriter final : public ClientWriter {
 public:
  // What the client does with the stream.
  struct Client {
    // Answered once by `taken`, unless the call ends before.
    std::function<void(const v1::GenerateResponse&, std::function<void()> taken)> take;
    std::function<void(const absl::Status&)> end;
  };
  SimClientWriter(EventQueue& queue, Client client) : queue_(queue), client_(std::move(client)) {}

  // The client's side ends the call.
  void ClientCancels() {
    if (cancelled_ || finished_) return;
    cancelled_ = true;
    Later([this] { call_->OnCancel(); });
    Written(false);
  }

  void Attach(ClientCall& call) override { call_ = &call; }
  void StartWrite(const v1::GenerateResponse* response) override {
    writing_ = true;
    if (cancelled_) return Written(false);
    client_.take(*response, [this, alive = std::weak_ptr<char>(alive_)] {
      if (!alive.expired()) Written(true);
    });
  }
  void Finish(const absl::Status& status) override {
    finished_ = true;
    if (!cancelled_) client_.end(FromGrpcStatus(ToGrpcStatus(status)));
    Later([this] { call_->OnDone(); });
  }
  // The router breaks the stream, and the client finds it broken.
  void Cancel() override {
    if (cancelled_ || finished_) return;
    client_.end(absl::CancelledError("the stream was reset"));
    ClientCancels();
  }

 private:
  void Later(std::function<void()> what) {
    queue_.After(1, [what = std::move(what), alive = std::weak_ptr<char>(alive_)] {
      if (!alive.expired()) what();
    });
  }
  void Written(bool ok) {
    if (!std::exchange(writing_, false)) return;
    Later([this, ok] { call_->OnWriteDone(ok); });
  }

  EventQueue& queue_;
  const Client client_;
  ClientCall* call_ = nullptr;
  bool writing_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace baton
