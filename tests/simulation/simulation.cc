#include "tests/simulation/simulation.h"

#include <utility>

namespace baton {
namespace {

// After healing everything ends within this: a promise expires after 30 s, an unanswered push after
// 20 s and its abort, an attempt without news after 60 s.
constexpr Micros kTimeToRest = 300'000'000;
constexpr Micros kTryAgain = 5'000;
constexpr Micros kTimeToNotice = 2'500'000;  // a worker without progress

}  // namespace

SimResult RunSimulation(uint64_t seed) { return Simulation(seed).Run(); }

Simulation::Simulation(uint64_t seed)
    : sim_(seed), network_(sim_, MakeEnds()), router_(sim_, prefill_, decode_) {
  const auto later = [this](auto what) {
    sim_.queue.After(sim_.random.Between(50, 500), std::move(what));
  };
  for (int i = 0; i < RouterSim::kWorkers; ++i) {
    const auto index = static_cast<size_t>(i);
    prefill_[index] = std::make_unique<PrefillSim>(
        sim_, network_, i,
        PrefillSim::Callbacks{
            .first_token =
                [this, later](const SimAttempt& a, int32_t token, bool ends) {
                  later([this, a, token, ends] { router_.FirstToken(a, token, ends); });
                },
            .finished =
                [this, later](const SimAttempt& a, const absl::Status& status) {
                  later([this, a, status] { router_.PrefillFinished(a, status); });
                }});
    // One call's answers come in order: each a fixed time later.
    const auto in_order = [this](auto what) { sim_.queue.After(300, std::move(what)); };
    decode_[index] = std::make_unique<DecodeSim>(
        sim_, network_, i,
        DecodeSim::Callbacks{
            .accepted = [this, in_order](
                            const SimAttempt& a) { in_order([this, a] { router_.Accepted(a); }); },
            .committed =
                [this, in_order](const SimAttempt& a) {
                  in_order([this, a] { router_.Committed(a); });
                },
            .token =
                [this, in_order](const SimAttempt& a, int output_index, int32_t token) {
                  in_order(
                      [this, a, output_index, token] { router_.Token(a, output_index, token); });
                },
            .failed =
                [this, in_order](const SimAttempt& a, const absl::Status&) {
                  in_order([this, a] { router_.DecodeFailed(a); });
                }});
  }
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

SimResult Simulation::Run() {
  router_.AddRequests();
  for (const TimedFault& fault : sim_.plan.timed) {
    sim_.queue.At(fault.at, [this, fault] { Strike(fault); });
  }
  sim_.queue.At(sim_.plan.heal_at, [this] { Heal(); });
  const Micros limit = sim_.plan.heal_at + kTimeToRest;
  while (!sim_.queue.empty() && sim_.queue.next() <= limit && sim_.violation.empty()) {
    sim_.queue.RunNext();
  }
  if (sim_.violation.empty()) {
    router_.CheckAtRest();
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

void Simulation::Strike(const TimedFault& fault) {
  if (sim_.healed || !router_.busy()) return;
  if (TryStrike(fault)) {
    sim_.coverage.Count(fault.fault);
  } else {
    sim_.queue.After(kTryAgain, [this, fault] { Strike(fault); });
  }
}

bool Simulation::TryStrike(const TimedFault& fault) {
  const int worker = static_cast<int>(fault.choice % RouterSim::kWorkers);
  switch (fault.fault) {
    case Fault::kCut:
    case Fault::kHalfCut:
    case Fault::kBlackHole:
      return StrikeStream(fault);
    case Fault::kCrashPrefill:
    case Fault::kPausePrefill:
    case Fault::kPressurePrefill:
      return StrikeOn(*prefill_[static_cast<size_t>(worker)], true, worker, fault) ||
             StrikeOn(*prefill_[static_cast<size_t>(1 - worker)], true, 1 - worker, fault);
    case Fault::kCrashDecode:
    case Fault::kPauseDecode:
    case Fault::kPressureDecode:
      return StrikeOn(*decode_[static_cast<size_t>(worker)], false, worker, fault) ||
             StrikeOn(*decode_[static_cast<size_t>(1 - worker)], false, 1 - worker, fault);
    default:
      return router_.ClientCancels(fault.choice);
  }
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

template <typename Worker>
bool Simulation::StrikeOn(Worker& worker, bool is_prefill, int index, const TimedFault& fault) {
  SimProcess& process = worker.process();
  if (!process.up() || process.paused()) return false;
  const uint64_t life = process.life();
  const auto gone = [this, is_prefill, index] { router_.WorkerGone(is_prefill, index); };
  switch (fault.fault) {
    case Fault::kCrashPrefill:
    case Fault::kCrashDecode:
      worker.Crash();
      network_.WorkerDied(is_prefill, index);
      sim_.queue.After(sim_.random.Between(100, kTimeToNotice), gone);
      sim_.queue.After(fault.duration, [&worker] { worker.Restart(); });
      return true;
    case Fault::kPausePrefill:
    case Fault::kPauseDecode:
      process.Pause();
      if (fault.duration > kTimeToNotice) sim_.queue.After(kTimeToNotice, gone);
      sim_.queue.After(fault.duration, [&process, life] {
        if (process.life() == life) process.Wake();
      });
      return true;
    default:
      worker.Squeeze();
      sim_.queue.After(fault.duration, [&worker] { worker.Relax(); });
      return true;
  }
}

// From here on the network is good; workers restart and wake up by the faults' own durations.
void Simulation::Heal() {
  sim_.healed = true;
  for (const auto& worker : prefill_) worker->Relax();
  for (const auto& worker : decode_) worker->Relax();
}

}  // namespace baton
