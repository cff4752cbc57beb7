// How the faults of a plan strike a simulated cluster.
#include <utility>

#include "tests/simulation/simulation.h"

namespace baton {
namespace {

constexpr Micros kTryAgain = 5'000;
constexpr int kSlowness = 100;
constexpr Micros kSlowBegin = 500'000;

bool IsOfPrefillWorker(Fault fault) {
  switch (fault) {
    case Fault::kCrashPrefill:
    case Fault::kSilentCrashPrefill:
    case Fault::kQuickRestartPrefill:
    case Fault::kPausePrefill:
    case Fault::kPressurePrefill:
    case Fault::kDeadlockPrefill:
    case Fault::kHangPrefill:
    case Fault::kSlowPrefill:
    case Fault::kFailingPrefill:
    case Fault::kReplacedPrefill:
    case Fault::kUnlistedPrefill:
      return true;
    default:
      return false;
  }
}

}  // namespace

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
  const auto any = static_cast<int>(fault.choice % kSimWorkers);
  const auto other = static_cast<int>(fault.choice / kSimWorkers % kSimWorkers);
  const bool one_way = (fault.choice >> 32) % 2 == 0;
  switch (fault.fault) {
    case Fault::kCut:
    case Fault::kHalfCut:
    case Fault::kBlackHole:
      return StrikeStream(fault);
    case Fault::kPartitionPair:
      network_.Partition(any, other, true, true, fault.duration);
      return true;
    case Fault::kOneWayPair:
      network_.Partition(any, other, one_way, !one_way, fault.duration);
      return true;
    case Fault::kLinkCut:
    case Fault::kLinkPartition:
    case Fault::kLinkOneWay:
    case Fault::kLinkSlow:
      StrikeLink({one_way, any}, fault);
      return true;
    case Fault::kAllDecodeGone:
      for (int i = 0; i < kSimWorkers; ++i) {
        if (core({false, i}).process().up()) Crash({false, i}, fault.duration, false);
      }
      return true;
    case Fault::kRollingRestart:
      RestartAll();
      return true;
    case Fault::kRouterKilled:
    case Fault::kRouterGone:
    case Fault::kRouterDrained:
      return StrikeRouter(fault);
    case Fault::kClientStopsReading:
      return router_->clients().StopReading(fault.choice, fault.duration);
    case Fault::kClientCancel:
      return router_->clients().Cancel(fault.choice);
    default:
      break;
  }
  for (int i = 0; i < kSimWorkers; ++i) {
    const SimWorkerId worker{IsOfPrefillWorker(fault.fault), (any + i) % kSimWorkers};
    const SimProcess& process = core(worker).process();
    if (!process.up() || process.paused()) continue;
    StrikeWorker(worker, fault);
    return true;
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

void Simulation::StrikeLink(SimWorkerId worker, const TimedFault& fault) {
  const bool to_worker = (fault.choice >> 33) % 2 == 0;
  if (fault.fault == Fault::kLinkCut) return control_.Cut(worker);
  if (fault.fault == Fault::kLinkSlow) return control_.Slow(worker, fault.duration);
  const bool both = fault.fault == Fault::kLinkPartition;
  control_.Block(worker, both || to_worker, both || !to_worker, fault.duration);
}

bool Simulation::StrikeRouter(const TimedFault& fault) {
  if (!router_->up()) return false;
  const Micros down = fault.duration % 1'000'000;
  if (fault.fault == Fault::kRouterDrained) router_->Drain();
  const Micros grace = fault.fault == Fault::kRouterDrained ? 500'000 : 0;
  sim_.queue.After(grace, [this, fault] {
    if (router_->up()) router_->Die(fault.fault == Fault::kRouterGone);
  });
  sim_.queue.After(grace + down + 1, [this] {
    if (!router_->up()) router_->Boot();
  });
  return true;
}

template <typename Begin, typename End>
void Simulation::For(SimWorkerId worker, Micros duration, const Begin& begin, End end) {
  begin();
  sim_.queue.After(duration,
                   [this, worker, life = core(worker).process().life(), end = std::move(end)] {
                     if (core(worker).process().life() == life) end();
                   });
}

void Simulation::StrikeWorker(SimWorkerId worker, const TimedFault& fault) {
  const auto index = static_cast<size_t>(worker.index);
  WorkerCore& of = core(worker);
  ++sim_.deaths;
  switch (fault.fault) {
    case Fault::kCrashPrefill:
    case Fault::kCrashDecode:
      return Crash(worker, fault.duration, false);
    case Fault::kSilentCrashPrefill:
    case Fault::kSilentCrashDecode:
      return Crash(worker, fault.duration, true);
    case Fault::kQuickRestartPrefill:
    case Fault::kQuickRestartDecode:
      return Crash(worker, fault.duration % 20'000, true);
    case Fault::kReplacedPrefill:
    case Fault::kReplacedDecode:
      of.ServeOtherModel(true);
      Crash(worker, fault.duration % 200'000, false);
      sim_.queue.After(fault.duration + 200'000, [this, worker] { GoBackToModel(worker); });
      return;
    case Fault::kPausePrefill:
    case Fault::kPauseDecode:
      of.process().Pause();
      control_.WorkerPaused(worker);
      return For(
          worker, fault.duration, [] {}, [&of] { of.process().Wake(); });
    case Fault::kDeadlockPrefill:
    case Fault::kDeadlockDecode:
      of.process().Pause();
      return For(
          worker, fault.duration, [] {}, [&of] { of.process().Wake(); });
    case Fault::kHangPrefill:
    case Fault::kHangDecode:
      return For(
          worker, fault.duration, [&of] { of.Hang(); }, [&of] { of.GoOn(); });
    case Fault::kSlowPrefill:
    case Fault::kSlowDecode:
      return For(
          worker, fault.duration, [&of] { of.SetSlowness(kSlowness); },
          [&of] { of.SetSlowness(1); });
    case Fault::kFailingPrefill:
    case Fault::kFailingDecode:
      of.SetFailing(true);
      sim_.queue.After(fault.duration, [&of] { of.SetFailing(false); });
      return;
    case Fault::kUnlistedPrefill:
    case Fault::kUnlistedDecode:
      List(worker, false);
      sim_.queue.After(fault.duration, [this, worker] { List(worker, true); });
      return;
    case Fault::kPressurePrefill:
      prefill_[index]->Squeeze();
      sim_.queue.After(fault.duration, [this, index] { prefill_[index]->Relax(); });
      return;
    default:
      decode_[index]->Squeeze();
      sim_.queue.After(fault.duration, [this, index] { decode_[index]->Relax(); });
  }
}

void Simulation::Crash(SimWorkerId worker, Micros down, bool silently) {
  const auto index = static_cast<size_t>(worker.index);
  worker.is_prefill ? prefill_[index]->Crash() : decode_[index]->Crash();
  ++sim_.deaths;
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

void Simulation::List(SimWorkerId worker, bool listed) {
  router_->SetTarget(worker, listed);
  control_.SetTakesWork(worker, listed && !core(worker).draining());
}

void Simulation::GoBackToModel(SimWorkerId worker) {
  WorkerCore& of = core(worker);
  of.ServeOtherModel(false);
  if (of.serves_other_model() && of.process().up()) Crash(worker, 20'000, false);
}

// One worker after the other is told to end: it takes nothing new, what still runs when its time is
// up goes on elsewhere, and a new process takes its place.
void Simulation::RestartAll() {
  Micros at = 0;
  for (int i = 0; i < kSimWorkers; ++i) {
    for (const bool is_prefill : {true, false}) {
      const SimWorkerId worker{is_prefill, i};
      sim_.queue.After(at, [this, worker] { Drain(worker); });
      at += kRollingRestartTime / static_cast<Micros>(kSimWorkersOfBothKinds + 1);
    }
  }
}

void Simulation::Drain(SimWorkerId worker) {
  WorkerCore& of = core(worker);
  if (!of.process().up() || of.process().paused() || sim_.healed) return;
  const auto index = static_cast<size_t>(worker.index);
  of.SetDraining(true);
  const Micros grace = sim_.random.Between(20'000, 1'500'000);
  For(
      worker, grace, [] {},
      [this, worker, index] {
        if (core(worker).process().paused()) return;
        worker.is_prefill ? prefill_[index]->EndAll() : decode_[index]->EndAll();
      });
  For(
      worker, grace + 100'000, [] {},
      [this, worker] {
        if (core(worker).process().up()) Crash(worker, sim_.random.Between(50'000, 300'000), false);
      });
}

// From here on everything is good.
void Simulation::Heal() {
  sim_.healed = true;
  control_.Heal();
  network_.Heal();
  if (!router_->up()) router_->Boot();
  for (int i = 0; i < kSimWorkers; ++i) {
    for (const bool is_prefill : {true, false}) {
      const SimWorkerId worker{is_prefill, i};
      WorkerCore& of = core(worker);
      of.process().Wake();
      of.SetFailing(false);
      if (of.process().up()) {
        of.SetDraining(false);
        of.SetSlowness(1);
        if (of.hung()) of.GoOn();
      }
      GoBackToModel(worker);
      Restart(worker);
      List(worker, true);
    }
    prefill_[static_cast<size_t>(i)]->Relax();
    decode_[static_cast<size_t>(i)]->Relax();
  }
}

// What the router has measured is long ago then, and the workers are slow to begin again.
void Simulation::BurstAfterPause() {
  const Micros pause = sim_.random.Chance(50) ? sim_.random.Between(60'000'000, 600'000'000)
                                              : sim_.random.Between(2'100'000, 10'000'000);
  const Micros from = sim_.queue.now() + pause;
  const auto slow_down = [this](int factor) {
    for (int i = 0; i < kSimWorkers; ++i) {
      for (const bool is_prefill : {true, false}) core({is_prefill, i}).SetSlowness(factor);
    }
  };
  sim_.queue.At(from, [slow_down] { slow_down(kSlowness); });
  sim_.queue.At(from + sim_.random.Between(0, kSlowBegin), [slow_down] { slow_down(1); });
  router_->clients().AddBurst(from);
  limit_ += pause;
}

}  // namespace baton
