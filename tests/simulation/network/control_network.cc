#include "tests/simulation/network/control_network.h"

#include <algorithm>
#include <utility>

namespace baton {
namespace {

size_t PlaceOf(const std::string& address) {
  return SimWorkerId{address[0] == 'p', address[1] - '0'}.place();
}

}  // namespace

ControlNetwork::Call* ControlNetwork::Find(CallId id) {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : &found->second;
}

ControlNetwork::CallId ControlNetwork::Open(const std::string& address, Method method,
                                            Caller caller) {
  const CallId id = next_id_++;
  Call& call = calls_[id];
  call.id = id;
  call.link = PlaceOf(address);
  call.method = method;
  call.caller = std::move(caller);
  ControlLink& link = links_[call.link];
  // A prefill worker may have been chosen long before its decode worker has accepted.
  if (method == Method::kDecode) link.CheckMayWork(address);
  if (!link.connected()) {
    if (!link.Answers()) {
      TellRouter(id, link.Refuses() ? link.Latency() : sim_.random.Between(500'000, 1'000'000),
                 absl::UnavailableError("failed to connect"));
      return id;
    }
    link.Connect();
  }
  call.epoch = link.epoch();
  ToWorker(id, [this, id] {
    Call* opened = Find(id);
    if (opened == nullptr) return;
    opened->worker_open = true;
    services_[opened->link].opened(id, opened->method);
  });
  return id;
}

// In order, when the way is free, on this connection only. What has arrived waits for a process
// that is stopped, whatever becomes of the connection.
void ControlNetwork::ToWorker(CallId id, std::function<void()> what) {
  const Call& call = *Find(id);
  sim_.queue.At(links_[call.link].ArrivalAtWorker(),
                [this, place = call.link, epoch = call.epoch, what = std::move(what)] {
                  const ControlLink& link = links_[place];
                  if (link.connected() && link.epoch() == epoch) link.worker().Post(what);
                });
}

void ControlNetwork::ToRouter(CallId id, std::function<void()> what) {
  const Call& call = *Find(id);
  sim_.queue.At(links_[call.link].ArrivalAtRouter(),
                [this, place = call.link, epoch = call.epoch, what = std::move(what)] {
                  const ControlLink& link = links_[place];
                  if (link.connected() && link.epoch() == epoch) what();
                });
}

void ControlNetwork::Send(CallId id, std::shared_ptr<const Message> message) {
  Call* call = Find(id);
  if (call == nullptr || !call->router_open || call->epoch == 0) return;
  ToWorker(id, [this, id, message = std::move(message)] {
    Call* to = Find(id);
    if (to == nullptr || !to->worker_open) return;
    if (to->method != Method::kWatch) ++sim_.coverage.messages;
    sim_.Trace(80, id);
    services_[to->link].received(id, *message);
  });
}

// The caller hears the end at once, and what is being read just before it.
void ControlNetwork::Cancel(CallId id) {
  Call* call = Find(id);
  if (call == nullptr || !call->router_open) return;
  TellRouter(id, sim_.random.Between(0, 300), absl::CancelledError("cancelled"));
  if (call->epoch == 0) return;
  if (call->method != Method::kWatch && sim_.Strikes(Fault::kLostCancel)) {
    return TellWorker(id, sim_.random.Between(3'000'000, 60'000'000));
  }
  ToWorker(id, [this, id] { TellWorker(id, 0); });
}

void ControlNetwork::Forget(CallId id) {
  Call* call = Find(id);
  if (call == nullptr) return;
  call->router_open = false;
  call->caller = {};
  EraseIfOver(id);
}

void ControlNetwork::Answer(CallId id, std::shared_ptr<const Message> message) {
  Call* call = Find(id);
  if (call == nullptr || !call->worker_open) return;
  ToRouter(id, [this, id, message = std::move(message)] {
    Call* to = Find(id);
    if (to == nullptr || !to->router_open) return;
    if (to->method != Method::kWatch) ++sim_.coverage.messages;
    sim_.Trace(81, id);
    to->caller.heard(*message);
  });
}

void ControlNetwork::End(CallId id, const absl::Status& status) {
  Call* call = Find(id);
  if (call == nullptr || !call->worker_open) return;
  call->worker_open = false;
  if (!call->router_open) return EraseIfOver(id);
  ToRouter(id, [this, id, status] { TellRouter(id, 0, status); });
}

void ControlNetwork::TellRouter(CallId id, Micros delay, const absl::Status& status) {
  sim_.queue.After(delay, [this, id, status] {
    Call* call = Find(id);
    if (call == nullptr || !call->router_open) return;
    call->router_open = false;
    sim_.Trace(82, id);
    const auto ended = std::move(call->caller.ended);
    EraseIfOver(id);
    if (ended) ended(status);
  });
}

void ControlNetwork::TellWorker(CallId id, Micros delay) {
  Call* call = Find(id);
  if (call == nullptr) return;
  SimProcess& process = links_[call->link].worker();
  sim_.queue.After(delay, [this, id, &process, life = process.life()] {
    if (process.life() != life) return;
    process.Post([this, id] {
      Call* over = Find(id);
      if (over == nullptr || !over->worker_open) return;
      over->worker_open = false;
      sim_.Trace(83, id);
      const size_t place = over->link;
      EraseIfOver(id);
      services_[place].cancelled(id);
    });
  });
}

// A call that never got through to a worker is over when the router knows.
void ControlNetwork::EraseIfOver(CallId id) {
  const Call* call = Find(id);
  if (call != nullptr && !call->router_open && !call->worker_open) calls_.erase(id);
}

void ControlNetwork::Break(ControlLink& link, Micros worker_notices, const char* why) {
  if (!link.connected()) return;
  link.Disconnect();
  std::vector<CallId> ids;
  for (const auto& [id, call] : calls_) {
    if (&links_[call.link] == &link && call.epoch != 0) ids.push_back(id);
  }
  for (const CallId id : ids) {
    TellRouter(id, 0, absl::UnavailableError(why));
    TellWorker(id, worker_notices);
  }
}

void ControlNetwork::Cut(SimWorkerId worker) {
  Break(links_[worker.place()], sim_.random.Between(0, 2'000'000), "connection reset");
}

void ControlNetwork::Block(SimWorkerId worker, bool to_worker, bool to_router, Micros duration) {
  ControlLink& link = links_[worker.place()];
  link.Block(to_worker, to_router, duration);
  Suspect(link);
}

void ControlNetwork::WorkerPaused(SimWorkerId worker) {
  ControlLink& link = links_[worker.place()];
  link.CountPause();
  Suspect(link);
}

// Keepalive: whoever does not answer now is given up if it never did until the ping's time is over.
void ControlNetwork::Suspect(ControlLink& link) {
  const bool paused = link.worker().paused();
  sim_.queue.After(sim_.random.Between(2'000'000, 3'000'000),
                   [this, &link, paused, epoch = link.epoch(), pauses = link.pauses()] {
                     if (!link.connected() || link.epoch() != epoch) return;
                     const bool stopped =
                         paused && link.worker().paused() && link.pauses() == pauses;
                     if (!stopped && link.Answers()) return;
                     Break(link, sim_.random.Between(0, 500'000), "keepalive watchdog timeout");
                   });
}

// A process that dies has its connections reset; a machine that dies says nothing.
void ControlNetwork::WorkerDied(SimWorkerId worker, bool silently) {
  ControlLink& link = links_[worker.place()];
  for (auto it = calls_.begin(); it != calls_.end();) {
    Call& call = (it++)->second;
    if (call.link != worker.place()) continue;
    call.worker_open = false;
    EraseIfOver(call.id);
  }
  if (!link.connected()) return;
  const bool unheard = silently || link.router_is_blocked();
  sim_.queue.After(unheard ? sim_.random.Between(2'000'000, 3'000'000) : link.Latency(),
                   [this, &link, epoch = link.epoch()] {
                     if (link.epoch() == epoch) Break(link, 0, "Socket closed");
                   });
}

// To a new process the old connections mean nothing: their next packet is answered by a reset.
void ControlNetwork::WorkerStarted(SimWorkerId worker) {
  ControlLink& link = links_[worker.place()];
  if (link.connected()) Break(link, 0, "connection reset");
}

void ControlNetwork::RouterDied(bool silently) {
  for (ControlLink& link : links_) link.Disconnect();
  std::vector<CallId> ids;
  for (const auto& [id, call] : calls_) ids.push_back(id);
  for (const CallId id : ids) {
    if (Call* call = Find(id); call != nullptr && call->worker_open) {
      TellWorker(
          id, silently ? sim_.random.Between(2'000'000, 3'000'000) : sim_.random.Between(20, 300));
    }
    Forget(id);
  }
}

void ControlNetwork::Heal() {
  for (ControlLink& link : links_) link.Heal();
}

}  // namespace baton
