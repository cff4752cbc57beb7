#include "tests/simulation/fault_plan.h"

namespace baton {
namespace {

struct Kind {
  const char* name;
  int most;  // in a thousand, in a seed if it is on; 0: timed
};

constexpr std::array<Kind, kFaultKinds> kKinds = {{
    {"lose request", 8},
    {"lose answer", 8},
    {"double request", 40},
    {"delay", 60},
    {"corrupt payload", 25},
    {"corrupt header", 6},
    {"corrupt control", 20},
    {"corrupt answer", 10},
    {"wrong acknowledgement", 25},
    {"truncate", 4},
    {"replay on the same stream", 30},
    {"replay on another stream", 6},
    {"replayed open", 100},
    {"forged open", 100},
    {"late delivery", 700},
    {"slow copy", 30},
    {"failed copy", 4},
    {"stale source", 6},
    {"stuck channel", 800},
    {"lost cancel", 700},
    {"other model", 60},
    {"other shape", 60},
    {"prefill worker forgets a call", 40},
    {"decode worker forgets a call", 100},
    {"deadline", 300},
    {"deadly prompt", 60},
    {"deadly output", 60},
    {"deadly opening", 40},
    {"costly output", 60},
    {"cut", 0},
    {"half cut", 0},
    {"black hole", 0},
    {"partition of a prefill and a decode worker", 0},
    {"one-way partition of such a pair", 0},
    {"crash of a prefill worker", 0},
    {"crash of a decode worker", 0},
    {"loss of a prefill worker's machine", 0},
    {"loss of a decode worker's machine", 0},
    {"quick restart of a prefill worker", 0},
    {"quick restart of a decode worker", 0},
    {"pause of a prefill worker", 0},
    {"pause of a decode worker", 0},
    {"pool pressure on a prefill worker", 0},
    {"pool pressure on a decode worker", 0},
    {"deadlock of a prefill worker", 0},
    {"deadlock of a decode worker", 0},
    {"engine of a prefill worker hangs", 0},
    {"engine of a decode worker hangs", 0},
    {"slow prefill worker", 0},
    {"slow decode worker", 0},
    {"prefill worker fails everything", 0},
    {"decode worker fails everything", 0},
    {"prefill worker forges KV", 0},
    {"prefill worker replaced by another model", 0},
    {"decode worker replaced by another model", 0},
    {"prefill worker unlisted", 0},
    {"decode worker unlisted", 0},
    {"all decode workers gone", 0},
    {"rolling restart", 0},
    {"connection to a worker cut", 0},
    {"partition of router and worker", 0},
    {"one-way partition of router and worker", 0},
    {"slow link of router and worker", 0},
    {"router killed", 0},
    {"router's machine lost", 0},
    {"router drained", 0},
    {"client stops reading", 0},
    {"client cancels", 0},
}};

// That leave the other workers of their kind as they are.
constexpr Fault kGentle[] = {
    Fault::kCrashPrefill,      Fault::kCrashDecode,        Fault::kSilentCrashPrefill,
    Fault::kSilentCrashDecode, Fault::kQuickRestartDecode, Fault::kQuickRestartPrefill,
    Fault::kPausePrefill,      Fault::kPauseDecode,        Fault::kHangPrefill,
    Fault::kHangDecode,        Fault::kUnlistedPrefill,    Fault::kUnlistedDecode,
    Fault::kReplacedPrefill,   Fault::kReplacedDecode,     Fault::kLinkCut,
    Fault::kLinkPartition,     Fault::kLinkOneWay,         Fault::kPartitionPair,
    Fault::kOneWayPair,        Fault::kRollingRestart,     Fault::kFailingPrefill,
    Fault::kFailingDecode,     Fault::kForgingPrefill};

bool StopsProcess(Fault fault) {
  return fault == Fault::kPausePrefill || fault == Fault::kPauseDecode ||
         fault == Fault::kDeadlockPrefill || fault == Fault::kDeadlockDecode ||
         fault == Fault::kHangPrefill || fault == Fault::kHangDecode ||
         fault == Fault::kClientStopsReading;
}

Micros DrawDuration(Fault fault, SimRandom& random) {
  if (StopsProcess(fault) && random.Chance(600)) {  // the last is as good as for ever
    return std::array<Micros, 3>{5'000'000, 30'000'000, 60'000'000}[random.Next() % 3];
  }
  if (fault == Fault::kAllDecodeGone) return random.Between(50'000, 5'000'000);
  return random.Chance(300) ? random.Between(1'000, 50'000'000) : random.Between(1'000, 1'000'000);
}

}  // namespace

const char* FaultName(Fault fault) { return kKinds[static_cast<size_t>(fault)].name; }

FaultPlan::FaultPlan(SimRandom& random) {
  gentle = random.Chance(150);
  const auto way = random.Next() % 6;
  policy = way == 0   ? PlacementPolicy::kRoundRobin
           : way == 1 ? PlacementPolicy::kLeastLoaded
                      : PlacementPolicy::kPrefixAware;
  const auto draw = random.Next() % 10;
  disaggregation = draw < 5    ? Disaggregation::kAlways
                   : draw == 5 ? Disaggregation::kNever
                   : draw < 9  ? Disaggregation::kAuto
                               : Disaggregation::kByLength;
  queue = !gentle && random.Chance(100) ? 6 : 64;
  audit_share = std::array<double, 4>{0, 0.1, 0.5, 1}[random.Next() % 4];
  guessed_steps = std::array<int, 3>{0, 300, 1000}[random.Next() % 3];
  gentle ? AddGentle(random) : AddHarsh(random);
  for (const TimedFault& fault : timed) heal_at = std::max(heal_at, fault.at + fault.duration);
  heal_at = std::max<Micros>(heal_at, 1'000'000);
}

void FaultPlan::AddHarsh(SimRandom& random) {
  for (size_t kind = 0; kind < kFaultKinds; ++kind) {
    if (random.Chance(350)) chances[kind] = static_cast<int>(random.Between(0, kKinds[kind].most));
  }
  const int64_t count = random.Between(5, 12);
  for (int64_t i = 0; i < count; ++i) {
    TimedFault fault;
    fault.at = random.Between(1'000, i < 4 ? 20'000 : random.Chance(700) ? 300'000 : 6'000'000);
    // Some need a push that is open, which the first four of another kind leave to find.
    const auto first = static_cast<int64_t>(i < 4 ? Fault::kCrashPrefill : Fault::kCut);
    fault.fault = static_cast<Fault>(random.Between(first, static_cast<int64_t>(kFaultKinds) - 1));
    fault.choice = random.Next();
    fault.duration = DrawDuration(fault.fault, random);
    timed.push_back(fault);
  }
  if (!random.Chance(150)) return;
  // Early, and so for long that much is pushed before and after it is found.
  timed.push_back({.at = random.Between(1'000, 50'000),
                   .fault = Fault::kForgingPrefill,
                   .choice = random.Next(),
                   .duration = random.Between(100'000, 6'000'000)});
}

// One after the other, each over and noticed before the next begins.
void FaultPlan::AddGentle(SimRandom& random) {
  Micros at = random.Between(2'000, 400'000);
  for (int i = 0; i < 4; ++i) {
    TimedFault fault;
    fault.at = at;
    fault.fault = kGentle[random.Next() % std::size(kGentle)];
    fault.choice = random.Next();
    fault.duration = random.Between(100'000, 6'000'000);
    if (StopsProcess(fault.fault) && random.Chance(400)) fault.duration = 30'000'000;
    timed.push_back(fault);
    at += std::max<Micros>(fault.duration, kRollingRestartTime) + 5'000'000;
  }
}

}  // namespace baton
