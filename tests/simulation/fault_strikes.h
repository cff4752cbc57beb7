// How the faults of a plan strike a simulated cluster, and how it is healed.
#pragma once

#include "tests/simulation/cluster.h"
#include "tests/simulation/fault_plan.h"
#include "tests/simulation/sim.h"

namespace baton {

class FaultStrikes {
 public:
  FaultStrikes(Sim& sim, SimCluster& cluster) : sim_(sim), cluster_(cluster) {}

  // Strikes when the time of each fault of the plan has come.
  void Schedule();
  // From here on everything is good.
  void Heal();

  static constexpr int kSlowness = 100;  // how often a slow worker is slower

 private:
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
  void EndForging(WorkerCore& forger, const TimedFault& fault);
  void Repair();
  void RestartAll();
  void Drain(SimWorkerId worker);

  Sim& sim_;
  SimCluster& cluster_;
  bool unrepaired_ = false;  // some worker may hold what was forged
};

}  // namespace baton
