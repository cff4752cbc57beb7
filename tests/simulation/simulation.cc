#include "tests/simulation/simulation.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/base/log.h"
#include "tests/simulation/virtual_world.h"

namespace baton {
namespace {

// After healing everything ends within this: a promise expires after 30 s, an unanswered push after
// 20 s and its abort, a request that nobody serves after 30 s, a late cancellation comes within 60
// s.
constexpr Micros kTimeToRest = 300'000'000;
constexpr Micros kTryAgain = 5'000;
constexpr Micros kCheckInterval = 250'000;

}  // namespace

SimResult RunSimulation(uint64_t seed) { return Simulation(seed).Run(); }

Simulation::Simulation(uint64_t seed) : sim_(seed), network_(sim_, MakeEnds()), control_(sim_) {
  if (std::getenv("BATON_SIM_LOG") == nullptr) CurrentLogger().set_level(spdlog::level::off);
  CurrentWorld() = {.sim = &sim_, .network = &control_};
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
  router_->AddRequests();
  for (const TimedFault& fault : sim_.plan.timed) {
    sim_.queue.At(fault.at, [this, fault] { Strike(fault); });
  }
  sim_.queue.At(sim_.plan.heal_at, [this] { Heal(); });
  const Micros limit = sim_.plan.heal_at + kTimeToRest;
  Micros check_at = kCheckInterval;
  bool at_rest = false;
  while (!at_rest && sim_.queue.next() <= limit && sim_.violation.empty()) {
    sim_.queue.RunNext();
    if (sim_.queue.now() < check_at) continue;
    check_at = sim_.queue.now() + kCheckInterval;
    CheckReadiness();
    at_rest = sim_.healed && AtRest();
  }
  if (sim_.violation.empty()) {
    router_->CheckAtRest();
    for (const auto& worker : prefill_) worker->CheckAtRest();
    for (const auto& worker : decode_) worker->CheckAtRest();
    if (network_.live_streams() > 0) sim_.Violation(network_.live_streams(), " streams are left");
  }
  return {.violation = sim_.violation,
          .trace = sim_.trace,
          .healed_at = sim_.plan.heal_at,
          .rested_at = sim_.queue.now(),
          .coverage = sim_.coverage};
}

bool Simulation::AtRest() const {
  const auto idle = [](const auto& worker) { return worker->idle(); };
  return router_->idle() && network_.live_streams() == 0 &&
         std::all_of(prefill_.begin(), prefill_.end(), idle) &&
         std::all_of(decode_.begin(), decode_.end(), idle);
}

// I6.
void Simulation::CheckReadiness() {}

void Simulation::Strike(const TimedFault& fault) {
  if (sim_.healed) return;
  if (TryStrike(fault)) {
    sim_.coverage.Count(fault.fault);
    sim_.Trace(2000 + static_cast<uint64_t>(fault.fault));
  } else {
    sim_.queue.After(kTryAgain, [this, fault] { Strike(fault); });
  }
}

bool Simulation::TryStrike(const TimedFault& fault) {
  switch (fault.fault) {
    case Fault::kCut:
    case Fault::kHalfCut:
    case Fault::kBlackHole:
      return StrikeStream(fault);
    case Fault::kClientCancel:
      return router_->ClientCancels(fault.choice);
    default:
      break;
  }
  const bool is_prefill = fault.fault == Fault::kCrashPrefill ||
                          fault.fault == Fault::kPausePrefill ||
                          fault.fault == Fault::kPressurePrefill;
  for (uint64_t i = 0; i < kSimWorkers; ++i) {
    const auto index = static_cast<int>((fault.choice + i) % kSimWorkers);
    if (StrikeWorker({is_prefill, index}, fault)) return true;
  }
  return false;
}

bool Simulation::StrikeStream(const TimedFault& fault) {
  const std::vector<Network::StreamId> open = network_.OpenStreams();
  if (open.empty()) return false;
  const Network::StreamId id = open[fault.choice % open.size()];
  if (fault.fault == Fault::kBlackHole) {
    network_.BlackHole(id, fault.duration);
  } else {
    network_.Cut(id, fault.fault == Fault::kHalfCut);
  }
  return true;
}

void Simulation::Crash(SimWorkerId worker, Micros down, bool silently) {
  const auto index = static_cast<size_t>(worker.index);
  worker.is_prefill ? prefill_[index]->Crash() : decode_[index]->Crash();
  network_.WorkerDied(worker.is_prefill, worker.index);
  control_.WorkerDied(worker, silently);
  sim_.queue.After(down, [this, worker, life = core(worker).process().life()] {
    if (core(worker).process().life() == life) Restart(worker);
  });
}

void Simulation::Restart(SimWorkerId worker) {
  if (core(worker).process().up()) return;
  const auto index = static_cast<size_t>(worker.index);
  control_.WorkerStarted(worker);
  worker.is_prefill ? prefill_[index]->Restart() : decode_[index]->Restart();
}

bool Simulation::StrikeWorker(SimWorkerId worker, const TimedFault& fault) {
  SimProcess& process = core(worker).process();
  if (!process.up() || process.paused()) return false;
  const auto index = static_cast<size_t>(worker.index);
  const uint64_t life = process.life();
  switch (fault.fault) {
    case Fault::kCrashPrefill:
    case Fault::kCrashDecode:
      Crash(worker, fault.duration, fault.choice % 4 == 0);
      return true;
    case Fault::kPausePrefill:
    case Fault::kPauseDecode:
      process.Pause();
      control_.WorkerPaused(worker);
      sim_.queue.After(fault.duration, [&process, life] {
        if (process.life() == life) process.Wake();
      });
      return true;
    case Fault::kPressurePrefill:
      prefill_[index]->Squeeze();
      sim_.queue.After(fault.duration, [this, index] { prefill_[index]->Relax(); });
      return true;
    default:
      decode_[index]->Squeeze();
      sim_.queue.After(fault.duration, [this, index] { decode_[index]->Relax(); });
      return true;
  }
}

// From here on everything is good.
void Simulation::Heal() {
  sim_.healed = true;
  control_.Heal();
  for (int i = 0; i < kSimWorkers; ++i) {
    for (const bool is_prefill : {true, false}) {
      const SimWorkerId worker{is_prefill, i};
      core(worker).process().Wake();
      Restart(worker);
    }
    prefill_[static_cast<size_t>(i)]->Relax();
    decode_[static_cast<size_t>(i)]->Relax();
  }
}

}  // namespace baton
