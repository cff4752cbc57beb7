#include "tests/simulation/network/control_network.h"

#include <algorithm>
#include <utility>

namespace baton {
namespace {

size_t PlaceOf(const std::string& address) {
  return SimWorkerId{address[0] == 'p', address[1] - '0'}.place();
}

// Within this the router knows what a worker says of itself.
constexpr Micros kNewsTime = 500'000;

}  // namespace

ControlNetwork::Call* ControlNetwork::Find(CallId id) {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : &found->second;
}

Micros ControlNetwork::Latency(const Link& link) {
  if (sim_.queue.now() < link.slow_until) return sim_.random.Between(30'000, 70'000);
  return sim_.random.Between(20, 300);
}

// The process is there and its connections can be made.
bool ControlNetwork::Answers(const Link& link) const {
  const Micros now = sim_.queue.now();
  return link.service.process->up() && !link.service.process->paused() &&
         now >= link.to_worker_blocked_until && now >= link.to_router_blocked_until;
}

bool ControlNetwork::Reachable(SimWorkerId worker) const { return Answers(links_[worker.place()]); }

ControlNetwork::CallId ControlNetwork::Open(const std::string& address, Method method,
                                            Caller caller) {
  const CallId id = next_id_++;
  Call& call = calls_[id];
  call.id = id;
  call.link = PlaceOf(address);
  call.method = method;
  call.caller = std::move(caller);
  Link& link = links_[call.link];
  // A prefill worker may have been chosen long before its decode worker has accepted.
  if (method == Method::kDecode) CheckMayWork(link, address);
  if (!link.connected) {
    if (!Answers(link)) {
      const bool refused =
          !link.service.process->up() && sim_.queue.now() >= link.to_worker_blocked_until;
      TellRouter(id, refused ? Latency(link) : sim_.random.Between(500'000, 1'000'000),
                 absl::UnavailableError("failed to connect"));
      return id;
    }
    link.connected = true;
    ++link.epoch;
    link.last_to_worker = sim_.queue.now() + 2 * Latency(link);
  }
  call.epoch = link.epoch;
  ToWorker(id, [this, id] {
    Call* opened = Find(id);
    if (opened == nullptr) return;
    opened->worker_open = true;
    links_[opened->link].service.opened(id, opened->method);
  });
  return id;
}

void ControlNetwork::SetTakesWork(SimWorkerId worker, bool takes) {
  Link& link = links_[worker.place()];
  if (takes) {
    link.takes_no_work_since = -1;
  } else if (link.takes_no_work_since < 0) {
    link.takes_no_work_since = sim_.queue.now();
  }
}

void ControlNetwork::CheckMayWork(const Link& link, const std::string& address) {
  if (link.takes_no_work_since < 0 || !link.connected || !Answers(link)) return;
  const Micros since = std::max(link.takes_no_work_since, link.held_up_until);
  if (sim_.queue.now() - since > kNewsTime) {
    sim_.Violation("the router gives work to ", address, ", which takes none");
  }
}

// In order, when the way is free, on this connection only. What has arrived waits for a process
// that is stopped, whatever becomes of the connection.
void ControlNetwork::ToWorker(CallId id, std::function<void()> what) {
  Call* call = Find(id);
  Link& link = links_[call->link];
  Micros at = std::max(link.last_to_worker, sim_.queue.now() + Latency(link));
  if (sim_.queue.now() < link.to_worker_blocked_until) {
    at = std::max(at, link.to_worker_blocked_until + sim_.random.Between(0, 200'000));
  }
  link.last_to_worker = at;
  sim_.queue.At(at, [this, place = call->link, epoch = call->epoch, what = std::move(what)] {
    Link& to = links_[place];
    if (to.connected && to.epoch == epoch) to.service.process->Post(what);
  });
}

void ControlNetwork::ToRouter(CallId id, std::function<void()> what) {
  Call* call = Find(id);
  Link& link = links_[call->link];
  Micros at = std::max(link.last_to_router, sim_.queue.now() + Latency(link));
  if (sim_.queue.now() < link.to_router_blocked_until) {
    at = std::max(at, link.to_router_blocked_until + sim_.random.Between(0, 200'000));
  }
  link.last_to_router = at;
  sim_.queue.At(at, [this, place = call->link, epoch = call->epoch, what = std::move(what)] {
    if (links_[place].connected && links_[place].epoch == epoch) what();
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
    links_[to->link].service.received(id, *message);
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
  SimProcess& process = *links_[call->link].service.process;
  sim_.queue.After(delay, [this, id, &process, life = process.life()] {
    if (process.life() != life) return;
    process.Post([this, id] {
      Call* over = Find(id);
      if (over == nullptr || !over->worker_open) return;
      over->worker_open = false;
      sim_.Trace(83, id);
      const size_t place = over->link;
      EraseIfOver(id);
      links_[place].service.cancelled(id);
    });
  });
}

// A call that never got through to a worker is over when the router knows.
void ControlNetwork::EraseIfOver(CallId id) {
  const Call* call = Find(id);
  if (call != nullptr && !call->router_open && !call->worker_open) calls_.erase(id);
}

void ControlNetwork::Break(Link& link, Micros worker_notices, const char* why) {
  if (!link.connected) return;
  link.connected = false;
  ++link.epoch;
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
  Link& link = links_[worker.place()];
  const Micros until = sim_.queue.now() + duration;
  if (to_worker) link.to_worker_blocked_until = until;
  if (to_router) link.to_router_blocked_until = until;
  link.held_up_until = std::max(link.held_up_until, until + 500'000);
  Suspect(link);
}

void ControlNetwork::Slow(SimWorkerId worker, Micros duration) {
  Link& link = links_[worker.place()];
  link.slow_until = sim_.queue.now() + duration;
}

void ControlNetwork::WorkerPaused(SimWorkerId worker) {
  Link& link = links_[worker.place()];
  ++link.pauses;
  Suspect(link);
}

// Keepalive: whoever does not answer now is given up if it never did until the ping's time is over.
void ControlNetwork::Suspect(Link& link) {
  const bool paused = link.service.process->paused();
  sim_.queue.After(sim_.random.Between(2'000'000, 3'000'000),
                   [this, &link, paused, epoch = link.epoch, pauses = link.pauses] {
                     if (!link.connected || link.epoch != epoch) return;
                     const bool stopped =
                         paused && link.service.process->paused() && link.pauses == pauses;
                     if (!stopped && link.service.process->up() && Answers(link)) return;
                     Break(link, sim_.random.Between(0, 500'000), "keepalive watchdog timeout");
                   });
}

// A process that dies has its connections reset; a machine that dies says nothing.
void ControlNetwork::WorkerDied(SimWorkerId worker, bool silently) {
  Link& link = links_[worker.place()];
  for (auto it = calls_.begin(); it != calls_.end();) {
    Call& call = (it++)->second;
    if (call.link != worker.place()) continue;
    call.worker_open = false;
    EraseIfOver(call.id);
  }
  if (!link.connected) return;
  const bool unheard = silently || sim_.queue.now() < link.to_router_blocked_until;
  sim_.queue.After(unheard ? sim_.random.Between(2'000'000, 3'000'000) : Latency(link),
                   [this, &link, epoch = link.epoch] {
                     if (link.epoch == epoch) Break(link, 0, "Socket closed");
                   });
}

// To a new process the old connections mean nothing: their next packet is answered by a reset.
void ControlNetwork::WorkerStarted(SimWorkerId worker) {
  Link& link = links_[worker.place()];
  if (link.connected) Break(link, 0, "connection reset");
}

void ControlNetwork::RouterDied(bool silently) {
  for (Link& link : links_) {
    link.connected = false;
    ++link.epoch;
  }
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
  for (Link& link : links_) {
    link.to_worker_blocked_until = link.to_router_blocked_until = link.slow_until = 0;
  }
}

}  // namespace baton
