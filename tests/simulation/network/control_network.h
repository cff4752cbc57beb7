// The router's calls to its workers, over connections that a seed makes bad: Watch, Prefill and
// Decode as messages that keep their order or end with their connection.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "tests/simulation/network/control_link.h"
#include "tests/simulation/sim.h"

namespace baton {

// A worker of the cluster; prefill workers come first.
struct SimWorkerId {
  bool is_prefill = false;
  int index = 0;

  size_t place() const { return static_cast<size_t>(is_prefill ? index : kSimWorkers + index); }
  std::string address() const { return absl::StrCat(is_prefill ? "p" : "d", index, ":1"); }
};
inline constexpr size_t kSimWorkersOfBothKinds = size_t{2} * kSimWorkers;

// As gRPC over TCP does it: what is sent on a connection arrives whole and in order, or the
// connection breaks. A peer that does not answer for two to three seconds is given up on either
// side.
class ControlNetwork {
 public:
  using CallId = uint64_t;  // from 1
  using Message = google::protobuf::Message;
  enum class Method { kWatch, kPrefill, kDecode };
  struct Caller {  // the router's end; nothing follows `ended`
    std::function<void(const Message&)> heard;
    std::function<void(const absl::Status&)> ended;
  };
  struct Service {  // a worker's end, on its process; nothing follows `cancelled`
    SimProcess* process = nullptr;
    std::function<void(CallId, Method)> opened;
    std::function<void(CallId, const Message&)> received;
    std::function<void(CallId)> cancelled;
  };

  explicit ControlNetwork(Sim& sim) : sim_(sim), links_(kSimWorkersOfBothKinds, ControlLink(sim)) {}
  void AddWorker(SimWorkerId worker, Service service) {
    links_[worker.place()].SetWorker(service.process);
    services_[worker.place()] = std::move(service);
  }

  // The router's end.
  CallId Open(const std::string& address, Method method, Caller caller);
  void Send(CallId id, std::shared_ptr<const Message> message);
  void Cancel(CallId id);
  void Forget(CallId id);  // the caller is gone, without a word

  // The worker's end.
  void Answer(CallId id, std::shared_ptr<const Message> message);
  void End(CallId id, const absl::Status& status);

  // Faults. What begins ends after `duration`; a connection may not survive it.
  void Cut(SimWorkerId worker);
  void Block(SimWorkerId worker, bool to_worker, bool to_router, Micros duration);
  void Slow(SimWorkerId worker, Micros duration) { links_[worker.place()].Slow(duration); }
  void WorkerPaused(SimWorkerId worker);
  void WorkerDied(SimWorkerId worker, bool silently);
  void WorkerStarted(SimWorkerId worker);
  void RouterDied(bool silently);
  void Heal();

  // It says so to the router, or the router is told: it is to give it nothing.
  void SetTakesWork(SimWorkerId worker, bool takes) { links_[worker.place()].SetTakesWork(takes); }

  // Whether the router and the worker can exchange messages now.
  bool Reachable(SimWorkerId worker) const { return links_[worker.place()].Answers(); }
  size_t live_calls() const { return calls_.size(); }

 private:
  struct Call {
    CallId id = 0;
    size_t link = 0;
    Method method = Method::kWatch;
    uint64_t epoch = 0;
    Caller caller;
    bool router_open = true;
    bool worker_open = false;  // it knows of the call, and that it has not ended
  };

  Call* Find(CallId id);
  void ToWorker(CallId id, std::function<void()> what);
  void ToRouter(CallId id, std::function<void()> what);
  void TellRouter(CallId id, Micros delay, const absl::Status& status);
  void TellWorker(CallId id, Micros delay);
  void Suspect(ControlLink& link);
  void Break(ControlLink& link, Micros worker_notices, const char* why);
  void EraseIfOver(CallId id);

  Sim& sim_;
  CallId next_id_ = 1;
  std::vector<ControlLink> links_;  // [place]
  std::array<Service, kSimWorkersOfBothKinds> services_;
  std::map<CallId, Call> calls_;
};

}  // namespace baton
