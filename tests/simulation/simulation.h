// A cluster of three prefill and three decode workers, a router and its clients, in virtual time:
// one seed, one run.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/simulation/coverage.h"
#include "tests/simulation/decode_worker/decode_sim.h"
#include "tests/simulation/network/network.h"
#include "tests/simulation/prefill_worker/prefill_sim.h"
#include "tests/simulation/router/router_sim.h"
#include "tests/simulation/sim.h"

namespace baton {

struct SimResult {
  std::string violation;  // what broke of I1 to I6; empty: nothing
  uint64_t trace = 0;     // equal for equal seeds
  Micros healed_at = 0;
  Micros rested_at = 0;
  Coverage coverage;
};

// Runs until nothing is left of any request. In the same process, equal seeds give equal results.
SimResult RunSimulation(uint64_t seed);

class Simulation {
 public:
  explicit Simulation(uint64_t seed);
  SimResult Run();

 private:
  Network::Ends MakeEnds();
  // Waits for a moment when the fault can strike.
  void Strike(const TimedFault& fault);
  // False when there is nothing to strike now.
  bool TryStrike(const TimedFault& fault);
  bool StrikeStream(const TimedFault& fault);
  void StrikeWorker(SimWorkerId worker, const TimedFault& fault);
  void StrikeLink(SimWorkerId worker, const TimedFault& fault);
  bool StrikeRouter(const TimedFault& fault);
  // Begins something that ends with its time, or with the process.
  template <typename Begin, typename End>
  void For(SimWorkerId worker, Micros duration, const Begin& begin, End end);
  void RestartAll();
  void Drain(SimWorkerId worker);
  void List(SimWorkerId worker, bool listed);
  void GoBackToModel(SimWorkerId worker);
  void Crash(SimWorkerId worker, Micros down, bool silently);
  void Restart(SimWorkerId worker);
  void Heal();
  void BurstAfterPause();
  bool Usable(SimWorkerId worker);
  void CheckReadiness();
  bool AtRest() const;
  WorkerCore& core(SimWorkerId worker);

  Sim sim_;
  Network network_;
  ControlNetwork control_;
  std::array<std::unique_ptr<PrefillSim>, kSimWorkers> prefill_;
  std::array<std::unique_ptr<DecodeSim>, kSimWorkers> decode_;
  std::unique_ptr<RouterSim> router_;
  Micros could_serve_at_ = 0;  // the last time
  Micros could_not_serve_at_ = 0;
  Micros not_ready_at_ = 0;
  Micros limit_ = 0;       // everything has ended by then
  Micros rested_at_ = -1;  // for the first time
};

}  // namespace baton
