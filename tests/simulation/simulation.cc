#include "tests/simulation/simulation.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/base/log.h"

namespace baton {
namespace {

// After healing everything ends within this: a reservation expires after 30 s, an unanswered push
// after 20 s and its abort, a request that nobody serves after 30 s, a late cancellation comes
// within 60 s.
constexpr Micros kTimeToRest = 300'000'000;
constexpr Micros kCheckInterval = 250'000;
constexpr Micros kToldTime = 600'000;  // two reports of each worker
constexpr Micros kReadinessTime = 5'000'000;

}  // namespace

SimResult RunSimulation(uint64_t seed) { return Simulation(seed).Run(); }

Simulation::Simulation(uint64_t seed) : sim_(seed), network_(sim_, MakeEnds()), control_(sim_) {
  if (std::getenv("BATON_SIM_LOG") == nullptr) CurrentLogger().set_level(spdlog::level::off);
  for (int i = 0; i < kSimWorkers; ++i) {
    const auto index = static_cast<size_t>(i);
    prefill_[index] = std::make_unique<PrefillSim>(sim_, network_, control_, i);
    decode_[index] = std::make_unique<DecodeSim>(sim_, network_, control_, i);
  }
  router_ = std::make_unique<RouterSim>(sim_, control_);
  sim_.kill_worker = [this](bool is_prefill, int index) {
    const SimWorkerId worker{is_prefill, index};
    sim_.queue.After(0, [this, worker, life = core(worker).process().life()] {
      if (core(worker).process().life() != life || !core(worker).process().up()) return;
      Crash(worker, sim_.random.Between(50'000, 500'000), false);
    });
  };
}

Network::Ends Simulation::MakeEnds() {
  const auto p = [this](int index) -> PrefillSim& { return *prefill_[static_cast<size_t>(index)]; };
  const auto d = [this](int index) -> DecodeSim& { return *decode_[static_cast<size_t>(index)]; };
  return {.request = [d](int worker, Network::StreamId id,
                         const std::string& bytes) { d(worker).Request(id, bytes); },
          .lost = [d](int worker, Network::StreamId id) { d(worker).Lost(id); },
          .answer = [p](int worker, Network::StreamId id,
                        const std::string& bytes) { p(worker).Answer(id, bytes); },
          .ended = [p](int worker, Network::StreamId id,
                       const absl::Status& status) { p(worker).Ended(id, status); },
          .prefill_process = [p](int worker) -> SimProcess& { return p(worker).process(); },
          .decode_process = [d](int worker) -> SimProcess& { return d(worker).process(); }};
}

WorkerCore& Simulation::core(SimWorkerId worker) {
  const auto index = static_cast<size_t>(worker.index);
  return worker.is_prefill ? prefill_[index]->core() : decode_[index]->core();
}

SimResult Simulation::Run() {
  router_->Boot();
  router_->clients().AddRequests();
  for (const TimedFault& fault : sim_.plan.timed) {
    sim_.queue.At(fault.at, [this, fault] { Strike(fault); });
  }
  sim_.queue.At(sim_.plan.heal_at, [this] { Heal(); });
  limit_ = sim_.plan.heal_at + kTimeToRest;
  Micros check_at = kCheckInterval;
  bool at_rest = false;
  while (!at_rest && sim_.queue.next() <= limit_ && sim_.violation.empty()) {
    sim_.queue.RunNext();
    if (sim_.queue.now() < check_at) continue;
    check_at = sim_.queue.now() + kCheckInterval;
    CheckReadiness();
    at_rest = sim_.healed && AtRest();
    if (at_rest && rested_at_ < 0) {
      rested_at_ = sim_.queue.now();
      BurstAfterPause();
      at_rest = AtRest();
    }
  }
  const Micros told_at = sim_.queue.now() + kToldTime;
  while (at_rest && sim_.queue.next() <= told_at) sim_.queue.RunNext();
  if (sim_.violation.empty()) {
    router_->CheckKnowledge(
        {.incarnation = [this](SimWorkerId worker) { return core(worker).incarnation(); },
         .held_tokens =
             [this](SimWorkerId worker, const std::vector<int32_t>& prompt) {
               const auto index = static_cast<size_t>(worker.index);
               return worker.is_prefill ? prefill_[index]->HeldTokens(prompt)
                                        : decode_[index]->HeldTokens(prompt);
             }});
    router_->clients().CheckAtRest();
    for (const auto& worker : prefill_) worker->CheckAtRest();
    for (const auto& worker : decode_) worker->CheckAtRest();
    if (network_.live_streams() > 0) sim_.Violation(network_.live_streams(), " streams are left");
  }
  return {.violation = sim_.violation,
          .trace = sim_.trace,
          .healed_at = sim_.plan.heal_at,
          .rested_at = rested_at_,
          .coverage = sim_.coverage};
}

bool Simulation::AtRest() const {
  const auto idle = [](const auto& worker) { return worker->idle(); };
  return router_->idle() && network_.live_streams() == 0 &&
         std::all_of(prefill_.begin(), prefill_.end(), idle) &&
         std::all_of(decode_.begin(), decode_.end(), idle);
}

// The router can exchange messages with it and it would compute.
bool Simulation::Usable(SimWorkerId worker) {
  WorkerCore& of = core(worker);
  return control_.Reachable(worker) && router_->listed(worker) && !of.draining() &&
         !(of.hung() && of.runnable() > 0);
}

// I6: not ready within 5 s of being unable to serve, ready within 5 s of being able to.
void Simulation::CheckReadiness() {
  bool prefill = false;
  bool decode = false;
  bool all = router_->up();
  for (int i = 0; i < kSimWorkers; ++i) {
    const bool p = Usable({true, i});
    const bool d = Usable({false, i});
    prefill |= p;
    decode |= d;
    all &= p && d && !core({true, i}).hung() && !core({false, i}).hung() &&
           !core({true, i}).serves_other_model() && !core({false, i}).serves_other_model();
  }
  const bool some =
      router_->up() && decode && (prefill || sim_.plan.disaggregation != Disaggregation::kAlways);
  const Micros now = sim_.queue.now();
  if (some) could_serve_at_ = now;
  if (!all) could_not_serve_at_ = now;
  if (!router_->up() || !router_->Ready()) not_ready_at_ = now;
  if (!router_->up()) return;
  // A worker that was lost and says hello again is believed for a moment.
  if (now - std::max(could_serve_at_, not_ready_at_) > kReadinessTime) {
    sim_.Violation("the router is ready though it has no worker");
  }
  if (now - could_not_serve_at_ > kReadinessTime && !router_->Ready()) {
    sim_.Violation("the router is not ready though all workers are");
  }
}

}  // namespace baton
