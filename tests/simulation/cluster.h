// The processes of a simulated cluster and the networks between them: three prefill and three
// decode workers, and a router with its clients.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tests/simulation/decode_worker/decode_sim.h"
#include "tests/simulation/network/control_network.h"
#include "tests/simulation/network/network.h"
#include "tests/simulation/prefill_worker/prefill_sim.h"
#include "tests/simulation/router/router_sim.h"
#include "tests/simulation/sim.h"

namespace baton {

class SimCluster {
 public:
  explicit SimCluster(Sim& sim);

  Network& network() { return network_; }
  ControlNetwork& control() { return control_; }
  RouterSim& router() { return *router_; }
  const RouterSim& router() const { return *router_; }
  WorkerCore& core(SimWorkerId worker);
  // Prefill and decode workers by turns.
  static std::vector<SimWorkerId> Workers();

  // A worker, by its kind.
  void Crash(SimWorkerId worker, Micros down, bool silently);  // and starts again later
  void Restart(SimWorkerId worker);                            // unless it is up
  void List(SimWorkerId worker, bool listed);                  // among the router's targets
  void GoBackToModel(SimWorkerId worker);
  void EndAll(SimWorkerId worker);
  void Squeeze(SimWorkerId worker);
  void Relax(SimWorkerId worker);
  // The router can exchange messages with it and it would compute.
  bool Usable(SimWorkerId worker);
  // A decode worker that the router can hear has quarantined the prefill worker.
  bool Quarantined(SimWorkerId prefill);

  // Nothing runs any more.
  bool AtRest() const;
  // Nothing is left of anything, and the router knows what is so.
  void CheckAtRest();

 private:
  Network::Ends MakeEnds();
  PrefillSim& prefill(int index) { return *prefill_[static_cast<size_t>(index)]; }
  DecodeSim& decode(int index) { return *decode_[static_cast<size_t>(index)]; }

  Sim& sim_;
  Network network_;
  ControlNetwork control_;
  std::array<std::unique_ptr<PrefillSim>, kSimWorkers> prefill_;
  std::array<std::unique_ptr<DecodeSim>, kSimWorkers> decode_;
  std::unique_ptr<RouterSim> router_;
};

}  // namespace baton
