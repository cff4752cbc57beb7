#include "tests/simulation/fault_strikes.h"

#include <utility>

namespace baton {
namespace {

constexpr Micros kTryAgain = 5'000;
constexpr Micros kRepairTime = 1'000'000;  // for a worker

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
    case Fault::kForgingPrefill:
    case Fault::kReplacedPrefill:
    case Fault::kUnlistedPrefill:
      return true;
    default:
      return false;
  }
}

}  // namespace

void FaultStrikes::Schedule() {
  for (const TimedFault& fault : sim_.plan.timed) {
    sim_.queue.At(fault.at, [this, fault] { Strike(fault); });
  }
}

void FaultStrikes::Strike(const TimedFault& fault) {
  if (sim_.healed) return;
  if (TryStrike(fault)) {
    sim_.coverage.Count(fault.fault);
    sim_.Trace(2000 + static_cast<uint64_t>(fault.fault));
  } else {
    sim_.queue.After(kTryAgain, [this, fault] { Strike(fault); });
  }
}

bool FaultStrikes::TryStrike(const TimedFault& fault) {
  const auto any = static_cast<int>(fault.choice % kSimWorkers);
  const auto other = static_cast<int>(fault.choice / kSimWorkers % kSimWorkers);
  const bool one_way = (fault.choice >> 32) % 2 == 0;
  switch (fault.fault) {
    case Fault::kCut:
    case Fault::kHalfCut:
    case Fault::kBlackHole:
      return StrikeStream(fault);
    case Fault::kPartitionPair:
      cluster_.network().Partition(any, other, true, true, fault.duration);
      return true;
    case Fault::kOneWayPair:
      cluster_.network().Partition(any, other, one_way, !one_way, fault.duration);
      return true;
    case Fault::kLinkCut:
    case Fault::kLinkPartition:
    case Fault::kLinkOneWay:
    case Fault::kLinkSlow:
      StrikeLink({one_way, any}, fault);
      return true;
    case Fault::kAllDecodeGone:
      for (int i = 0; i < kSimWorkers; ++i) {
        if (cluster_.core({false, i}).process().up())
          cluster_.Crash({false, i}, fault.duration, false);
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
      return cluster_.router().clients().StopReading(fault.choice, fault.duration);
    case Fault::kClientCancel:
      return cluster_.router().clients().Cancel(fault.choice);
    default:
      break;
  }
  for (int i = 0; i < kSimWorkers; ++i) {
    const SimWorkerId worker{IsOfPrefillWorker(fault.fault), (any + i) % kSimWorkers};
    const SimProcess& process = cluster_.core(worker).process();
    if (!process.up() || process.paused()) continue;
    StrikeWorker(worker, fault);
    return true;
  }
  return false;
}

bool FaultStrikes::StrikeStream(const TimedFault& fault) {
  const std::vector<Network::StreamId> open = cluster_.network().OpenStreams();
  if (open.empty()) return false;
  const Network::StreamId id = open[fault.choice % open.size()];
  if (fault.fault == Fault::kBlackHole) {
    cluster_.network().BlackHole(id, fault.duration);
  } else {
    cluster_.network().Cut(id, fault.fault == Fault::kHalfCut);
  }
  return true;
}

void FaultStrikes::StrikeLink(SimWorkerId worker, const TimedFault& fault) {
  const bool to_worker = (fault.choice >> 33) % 2 == 0;
  if (fault.fault == Fault::kLinkCut) return cluster_.control().Cut(worker);
  if (fault.fault == Fault::kLinkSlow) return cluster_.control().Slow(worker, fault.duration);
  const bool both = fault.fault == Fault::kLinkPartition;
  cluster_.control().Block(worker, both || to_worker, both || !to_worker, fault.duration);
}

bool FaultStrikes::StrikeRouter(const TimedFault& fault) {
  if (!cluster_.router().up()) return false;
  const Micros down = fault.duration % 1'000'000;
  if (fault.fault == Fault::kRouterDrained) cluster_.router().Drain();
  const Micros grace = fault.fault == Fault::kRouterDrained ? 500'000 : 0;
  sim_.queue.After(grace, [this, fault] {
    if (cluster_.router().up()) cluster_.router().Die(fault.fault == Fault::kRouterGone);
  });
  sim_.queue.After(grace + down + 1, [this] {
    if (!cluster_.router().up()) cluster_.router().Boot();
  });
  return true;
}

template <typename Begin, typename End>
void FaultStrikes::For(SimWorkerId worker, Micros duration, const Begin& begin, End end) {
  begin();
  sim_.queue.After(duration, [this, worker, life = cluster_.core(worker).process().life(),
                              end = std::move(end)] {
    if (cluster_.core(worker).process().life() == life) end();
  });
}

void FaultStrikes::StrikeWorker(SimWorkerId worker, const TimedFault& fault) {
  WorkerCore& of = cluster_.core(worker);
  if (fault.fault != Fault::kForgingPrefill) ++sim_.deaths;
  switch (fault.fault) {
    case Fault::kCrashPrefill:
    case Fault::kCrashDecode:
      return cluster_.Crash(worker, fault.duration, false);
    case Fault::kSilentCrashPrefill:
    case Fault::kSilentCrashDecode:
      return cluster_.Crash(worker, fault.duration, true);
    case Fault::kQuickRestartPrefill:
    case Fault::kQuickRestartDecode:
      return cluster_.Crash(worker, fault.duration % 20'000, true);
    case Fault::kReplacedPrefill:
    case Fault::kReplacedDecode:
      of.ServeOtherModel(true);
      cluster_.Crash(worker, fault.duration % 200'000, false);
      sim_.queue.After(fault.duration + 200'000,
                       [this, worker] { cluster_.GoBackToModel(worker); });
      return;
    case Fault::kPausePrefill:
    case Fault::kPauseDecode:
      of.process().Pause();
      cluster_.control().WorkerPaused(worker);
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
    case Fault::kForgingPrefill:
      unrepaired_ = true;
      return For(
          worker, fault.duration, [&of] { of.SetForging(true); },
          [this, &of, fault] { EndForging(of, fault); });
    case Fault::kUnlistedPrefill:
    case Fault::kUnlistedDecode:
      cluster_.List(worker, false);
      sim_.queue.After(fault.duration, [this, worker] { cluster_.List(worker, true); });
      return;
    case Fault::kPressurePrefill:
    case Fault::kPressureDecode:
      cluster_.Squeeze(worker);
      sim_.queue.After(fault.duration, [this, worker] { cluster_.Relax(worker); });
      return;
    default:
      sim_.Violation("no worker is struck by ", FaultName(fault.fault));
  }
}

// It may also forge for as long as it runs. What it has computed stays in its cache.
void FaultStrikes::EndForging(WorkerCore& forger, const TimedFault& fault) {
  if (sim_.plan.gentle) return Repair();
  const bool for_ever = (fault.choice >> 34) % 2 == 0;
  if (!for_ever) forger.SetForging(false);
}

// As an operator does it who has found the cause: forgers begin anew, and then all decode workers,
// which may have what they forged, one after the other.
void FaultStrikes::Repair() {
  if (!std::exchange(unrepaired_, false)) return;
  Micros at = 0;
  for (const SimWorkerId worker : SimCluster::Workers()) {
    WorkerCore& of = cluster_.core(worker);
    if (worker.is_prefill && !of.has_forged()) continue;
    if (!worker.is_prefill) at += kRepairTime;
    sim_.queue.After(worker.is_prefill ? 0 : at, [this, worker, life = of.process().life()] {
      if (cluster_.core(worker).process().life() != life) return;
      if (cluster_.core(worker).process().up()) cluster_.Crash(worker, kRepairTime / 10, false);
    });
  }
}

// One worker after the other is told to end: it takes nothing new, what still runs when its time is
// up goes on elsewhere, and a new process takes its place.
void FaultStrikes::RestartAll() {
  Micros at = 0;
  for (const SimWorkerId worker : SimCluster::Workers()) {
    sim_.queue.After(at, [this, worker] { Drain(worker); });
    at += kRollingRestartTime / static_cast<Micros>(kSimWorkersOfBothKinds + 1);
  }
}

void FaultStrikes::Drain(SimWorkerId worker) {
  WorkerCore& of = cluster_.core(worker);
  if (!of.process().up() || of.process().paused() || sim_.healed) return;
  of.SetDraining(true);
  const Micros grace = sim_.random.Between(20'000, 1'500'000);
  For(
      worker, grace, [] {},
      [this, worker] {
        if (cluster_.core(worker).process().paused()) return;
        cluster_.EndAll(worker);
      });
  For(
      worker, grace + 100'000, [] {},
      [this, worker] {
        if (cluster_.core(worker).process().up())
          cluster_.Crash(worker, sim_.random.Between(50'000, 300'000), false);
      });
}

void FaultStrikes::Heal() {
  sim_.healed = true;
  cluster_.control().Heal();
  cluster_.network().Heal();
  if (!cluster_.router().up()) cluster_.router().Boot();
  for (const SimWorkerId worker : SimCluster::Workers()) {
    WorkerCore& of = cluster_.core(worker);
    of.process().Wake();
    of.SetFailing(false);
    if (of.process().up()) {
      of.SetDraining(false);
      of.SetSlowness(1);
      if (of.hung()) of.GoOn();
    }
    cluster_.GoBackToModel(worker);
    cluster_.Restart(worker);
    cluster_.List(worker, true);
    if (worker.is_prefill) continue;
    cluster_.Relax({true, worker.index});
    cluster_.Relax(worker);
  }
  Repair();
}

}  // namespace baton
