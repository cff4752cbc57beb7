#include "tests/simulation/network/control_link.h"

#include <algorithm>

namespace baton {
namespace {

// Within this the router knows what a worker says of itself.
constexpr Micros kNewsTime = 500'000;

}  // namespace

void ControlLink::Connect() {
  connected_ = true;
  ++epoch_;
  last_to_worker_ = sim_.queue.now() + 2 * Latency();
}

void ControlLink::Disconnect() {
  connected_ = false;
  ++epoch_;
}

Micros ControlLink::Latency() {
  if (sim_.queue.now() < slow_until_) return sim_.random.Between(30'000, 70'000);
  return sim_.random.Between(20, 300);
}

bool ControlLink::Answers() const {
  const Micros now = sim_.queue.now();
  return worker_->up() && !worker_->paused() && now >= to_worker_blocked_until_ &&
         now >= to_router_blocked_until_;
}

bool ControlLink::Refuses() const {
  return !worker_->up() && sim_.queue.now() >= to_worker_blocked_until_;
}

Micros ControlLink::Arrival(Micros& last, Micros blocked_until) {
  Micros at = std::max(last, sim_.queue.now() + Latency());
  if (sim_.queue.now() < blocked_until) {
    at = std::max(at, blocked_until + sim_.random.Between(0, 200'000));
  }
  last = at;
  return at;
}

void ControlLink::Block(bool to_worker, bool to_router, Micros duration) {
  const Micros until = sim_.queue.now() + duration;
  if (to_worker) to_worker_blocked_until_ = until;
  if (to_router) to_router_blocked_until_ = until;
  held_up_until_ = std::max(held_up_until_, until + 500'000);
}

void ControlLink::SetTakesWork(bool takes) {
  if (takes) {
    takes_no_work_since_ = -1;
  } else if (takes_no_work_since_ < 0) {
    takes_no_work_since_ = sim_.queue.now();
  }
}

void ControlLink::CheckMayWork(const std::string& address) const {
  if (takes_no_work_since_ < 0 || !connected_ || !Answers()) return;
  const Micros since = std::max(takes_no_work_since_, held_up_until_);
  if (sim_.queue.now() - since > kNewsTime) {
    sim_.Violation("the router gives work to ", address, ", which takes none");
  }
}

}  // namespace baton
