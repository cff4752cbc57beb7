// A cluster of three prefill and three decode workers, a router and its clients, in virtual time:
// one seed, one run.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulation/cluster.h"
#include "tests/simulation/coverage.h"
#include "tests/simulation/fault_strikes.h"
#include "tests/simulation/sim.h"

namespace baton {

struct SimResult {
  std::string violation;  // what broke of I1 to I7; empty: nothing
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
  void CheckReadiness();
  void BurstAfterPause();

  Sim sim_;
  SimCluster cluster_;
  FaultStrikes faults_;
  Micros could_serve_at_ = 0;  // the last time
  Micros could_not_serve_at_ = 0;
  Micros not_ready_at_ = 0;
  Micros limit_ = 0;       // everything has ended by then
  Micros rested_at_ = -1;  // for the first time
};

}  // namespace baton
