#include "tests/simulation/simulation.h"

#include <algorithm>
#include <cstdlib>

#include "common/base/log.h"

namespace baton {
namespace {

// After healing everything ends within this: a reservation expires after 30 s, an unanswered push
// after 10 s and its abort, a forgotten call after 30 s, a request that nobody serves after 30 s, a
// late cancellation comes within 60 s.
constexpr Micros kTimeToRest = 300'000'000;
constexpr Micros kCheckInterval = 250'000;
constexpr Micros kSlowBegin = 500'000;
constexpr Micros kToldTime = 600'000;  // two reports of each worker
constexpr Micros kReadinessTime = 5'000'000;

}  // namespace

SimResult RunSimulation(uint64_t seed) {
  if (std::getenv("BATON_SIM_LOG") == nullptr) CurrentLogger().set_level(spdlog::level::off);
  return Simulation(seed).Run();
}

Simulation::Simulation(uint64_t seed) : sim_(seed), cluster_(sim_), faults_(sim_, cluster_) {}

SimResult Simulation::Run() {
  cluster_.router().Boot();
  cluster_.router().clients().AddRequests();
  faults_.Schedule();
  sim_.queue.At(sim_.plan.heal_at, [this] { faults_.Heal(); });
  limit_ = sim_.plan.heal_at + kTimeToRest;
  Micros check_at = kCheckInterval;
  bool at_rest = false;
  while (!at_rest && sim_.queue.next() <= limit_ && sim_.violation.empty()) {
    sim_.queue.RunNext();
    if (sim_.queue.now() < check_at) continue;
    check_at = sim_.queue.now() + kCheckInterval;
    CheckReadiness();
    at_rest = sim_.healed && cluster_.AtRest();
    if (at_rest && rested_at_ < 0) {
      rested_at_ = sim_.queue.now();
      BurstAfterPause();
      at_rest = cluster_.AtRest();
    }
  }
  const Micros told_at = sim_.queue.now() + kToldTime;
  while (at_rest && sim_.queue.next() <= told_at) sim_.queue.RunNext();
  if (sim_.violation.empty()) cluster_.CheckAtRest();
  return {.violation = sim_.violation,
          .trace = sim_.trace,
          .healed_at = sim_.plan.heal_at,
          .rested_at = rested_at_,
          .coverage = sim_.coverage};
}

// I6: not ready within 5 s of being unable to serve, ready within 5 s of being able to.
void Simulation::CheckReadiness() {
  const RouterSim& router = cluster_.router();
  bool prefill = false;
  bool decode = false;
  bool all = router.up();
  for (int i = 0; i < kSimWorkers; ++i) {
    const bool p = cluster_.Usable({true, i}) && !cluster_.Quarantined({true, i});
    const bool d = cluster_.Usable({false, i});
    prefill |= p;
    decode |= d;
    all &= p && d;
  }
  for (const SimWorkerId worker : SimCluster::Workers()) {
    const WorkerCore& core = cluster_.core(worker);
    all &= !core.hung() && !core.serves_other_model() && core.quarantined().empty();
  }
  const bool some =
      router.up() && decode && (prefill || sim_.plan.disaggregation != Disaggregation::kAlways);
  const Micros now = sim_.queue.now();
  if (some) could_serve_at_ = now;
  if (!all) could_not_serve_at_ = now;
  if (!router.up() || !router.Ready()) not_ready_at_ = now;
  if (!router.up()) return;
  // A worker that was lost and says hello again is believed for a moment.
  if (now - std::max(could_serve_at_, not_ready_at_) > kReadinessTime) {
    sim_.Violation("the router is ready though it has no worker");
  }
  if (now - could_not_serve_at_ > kReadinessTime && !router.Ready()) {
    sim_.Violation("the router is not ready though all workers are");
  }
}

// What the router has measured is long ago then, and the workers are slow to begin again.
void Simulation::BurstAfterPause() {
  const Micros pause = sim_.random.Chance(50) ? sim_.random.Between(60'000'000, 600'000'000)
                                              : sim_.random.Between(2'100'000, 10'000'000);
  const Micros from = sim_.queue.now() + pause;
  const auto slow_down = [this](int factor) {
    for (const SimWorkerId worker : SimCluster::Workers())
      cluster_.core(worker).SetSlowness(factor);
  };
  sim_.queue.At(from, [slow_down] { slow_down(FaultStrikes::kSlowness); });
  sim_.queue.At(from + sim_.random.Between(0, kSlowBegin), [slow_down] { slow_down(1); });
  cluster_.router().clients().AddBurst(from);
  limit_ += pause;
}

}  // namespace baton
