// The router of the simulated cluster: the real registry of workers, dispatcher, runner, request
// machines and placement, called by the clients of the run.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "tests/simulation/network/control_network.h"
#include "tests/simulation/router/sim_clients.h"
#include "tests/simulation/router/told_quarantines.h"
#include "tests/simulation/sim.h"

namespace baton {

class RouterSim {
 public:
  RouterSim(Sim& sim, ControlNetwork& network);
  ~RouterSim();

  SimClients& clients() { return clients_; }

  // The process.
  void Boot();
  void Die(bool silently);  // requests end for their clients
  bool up() const { return process_ != nullptr; }
  void Drain();  // ends what runs, and takes nothing new
  void SetTarget(SimWorkerId worker, bool listed);
  bool listed(SimWorkerId worker) const { return listed_[worker.place()]; }
  // As a request that came now would find it.
  bool Ready() const;

  bool idle() const;  // every request has ended, and every call to a worker but Watch
  // Once the workers have told all: the router knows who they are and what they hold of each
  // prompt.
  struct Truth {
    std::function<uint64_t(SimWorkerId)> incarnation;
    std::function<int(SimWorkerId, const std::vector<int32_t>& prompt)> held_tokens;
  };
  void CheckKnowledge(const Truth& truth);

 private:
  struct Process;

  void Call(SimClient& client);
  void Prepare(const SimClient& client, uint64_t number);

  Sim& sim_;
  ControlNetwork& network_;
  std::array<bool, kSimWorkersOfBothKinds> listed_{};
  SimClients clients_;
  ToldQuarantines told_;
  std::unique_ptr<Process> process_;
};

}  // namespace baton
