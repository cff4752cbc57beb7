// gRPC's callback API over the simulated network, as far as the router uses it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "google/protobuf/message.h"
#include "grpcpp/support/status.h"

#include "tests/simulation/control_network.h"

namespace grpc {
inline namespace simulated {

using baton::ControlNetwork;
using Message = google::protobuf::Message;

struct Channel {
  explicit Channel(std::string to) : address(std::move(to)) {}
  const std::string address;
};

class ClientContext {
 public:
  void TryCancel();

 private:
  friend class ClientReactor;
  ControlNetwork::CallId call_ = 0;  // 0: not begun
};

// The two kinds of client reactors. Callbacks come from events of their own, never from inside of a
// function that is called here.
class ClientReactor {
 public:
  ClientReactor() = default;
  virtual ~ClientReactor();
  ClientReactor(const ClientReactor&) = delete;
  ClientReactor& operator=(const ClientReactor&) = delete;

  // What a stub does; `request` may be null.
  void Bind(const Channel& channel, ControlNetwork::Method method, ClientContext& context,
            const Message* request);
  void StartCall();
  void StartRead(Message* into);
  void StartWrite(const Message* message);
  void StartWritesDone();
  void AddHold() { ++holds_; }
  void RemoveHold();

  virtual void OnReadDone(bool) {}
  virtual void OnWriteDone(bool) {}
  virtual void OnWritesDoneDone(bool) {}
  virtual void OnDone(const Status&) {}

 private:
  void Later(std::function<void()> what);
  void TryRead();
  void MaybeDone();

  std::string address_;
  ControlNetwork::Method method_ = ControlNetwork::Method::kWatch;
  ClientContext* context_ = nullptr;
  std::shared_ptr<const Message> first_;
  std::deque<std::shared_ptr<const Message>> unsent_;  // before StartCall
  std::deque<std::shared_ptr<Message>> received_;
  Message* reading_ = nullptr;
  int operations_ = 0;  // whose callbacks are on their way
  int holds_ = 0;
  std::optional<Status> end_;
  bool done_ = false;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

template <typename Response>
class ClientReadReactor : public ClientReactor {};
template <typename Request, typename Response>
class ClientBidiReactor : public ClientReactor {};

class ServerReactor;

class CallbackServerContext {
 public:
  void TryCancel();

 private:
  friend class ServerReactor;
  ServerReactor* reactor_ = nullptr;
};

// The router's end of a client's call; Bind leads to the simulated client.
class ServerReactor {
 public:
  struct Client {
    // Answered once by `taken`, unless the call ends before.
    std::function<void(const Message&, std::function<void()> taken)> take;
    std::function<void(const Status&)> end;
  };
  ServerReactor() = default;
  virtual ~ServerReactor() = default;
  ServerReactor(const ServerReactor&) = delete;
  ServerReactor& operator=(const ServerReactor&) = delete;

  void Bind(Client client, CallbackServerContext& context);
  // The client's side ends the call.
  void Cancel();
  void Reset();

  void StartWrite(const Message* message);
  void Finish(const Status& status);

  virtual void OnWriteDone(bool) {}
  virtual void OnCancel() {}
  virtual void OnDone() {}

 private:
  void Later(std::function<void()> what);
  void Written(bool ok);

  Client client_;
  bool writing_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

template <typename Response>
class ServerWriteReactor : public ServerReactor {};

}  // namespace simulated
}  // namespace grpc
