// The connection of the router to one worker: up or down, slow, blocked in either direction.
#pragma once

#include <string>

#include "tests/simulation/sim.h"

namespace baton {

class ControlLink {
 public:
  explicit ControlLink(Sim& sim) : sim_(sim) {}

  void SetWorker(SimProcess* process) { worker_ = process; }
  SimProcess& worker() const { return *worker_; }

  bool connected() const { return connected_; }
  // Tells connections of the link apart.
  uint64_t epoch() const { return epoch_; }
  void Connect();
  void Disconnect();

  // Whether the process is there and a connection can be made.
  bool Answers() const;
  // Whether the machine says at once that there is no process.
  bool Refuses() const;
  bool router_is_blocked() const { return sim_.queue.now() < to_router_blocked_until_; }

  Micros Latency();
  // When something arrives that is sent now: in order, when the way is free.
  Micros ArrivalAtWorker() { return Arrival(last_to_worker_, to_worker_blocked_until_); }
  Micros ArrivalAtRouter() { return Arrival(last_to_router_, to_router_blocked_until_); }

  // Faults.
  void Block(bool to_worker, bool to_router, Micros duration);
  void Slow(Micros duration) { slow_until_ = sim_.queue.now() + duration; }
  void Heal() { to_worker_blocked_until_ = to_router_blocked_until_ = slow_until_ = 0; }
  void CountPause() { ++pauses_; }
  uint64_t pauses() const { return pauses_; }

  // The worker says that it takes work, or that it takes none.
  void SetTakesWork(bool takes);
  // Work is given to it.
  void CheckMayWork(const std::string& address) const;

 private:
  Micros Arrival(Micros& last, Micros blocked_until);

  Sim& sim_;
  SimProcess* worker_ = nullptr;
  bool connected_ = false;
  uint64_t epoch_ = 0;
  Micros to_worker_blocked_until_ = 0;
  Micros to_router_blocked_until_ = 0;
  Micros slow_until_ = 0;
  Micros last_to_worker_ = 0;  // arrival
  Micros last_to_router_ = 0;
  uint64_t pauses_ = 0;
  Micros takes_no_work_since_ = -1;
  Micros held_up_until_ = 0;  // what the worker says
};

}  // namespace baton
