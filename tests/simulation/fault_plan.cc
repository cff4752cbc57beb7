#include "tests/simulation/fault_plan.h"

namespace baton {
namespace {

struct Kind {
  const char* name;
  int most;  // in a thousand, in a seed where it is on; 0: timed
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
    {"cut", 0},
    {"half cut", 0},
    {"black hole", 0},
    {"crash of a prefill worker", 0},
    {"crash of a decode worker", 0},
    {"pause of a prefill worker", 0},
    {"pause of a decode worker", 0},
    {"pool pressure on a prefill worker", 0},
    {"pool pressure on a decode worker", 0},
    {"client cancels", 0},
}};

}  // namespace

const char* FaultName(Fault fault) { return kKinds[static_cast<size_t>(fault)].name; }

FaultPlan::FaultPlan(SimRandom& random) {
  for (size_t kind = 0; kind < kFaultKinds; ++kind) {
    if (random.Chance(350)) chances[kind] = static_cast<int>(random.Between(0, kKinds[kind].most));
  }
  const int64_t count = random.Between(5, 11);
  for (int64_t i = 0; i < count; ++i) {
    TimedFault fault;
    fault.at = random.Between(1'000, i < 4 ? 20'000 : 300'000);
    // Some need a push that is open, which the first four of another kind leave to find.
    const auto first = static_cast<int64_t>(i < 4 ? Fault::kCrashPrefill : Fault::kCut);
    fault.fault = static_cast<Fault>(random.Between(first, static_cast<int64_t>(kFaultKinds) - 1));
    fault.choice = random.Next();
    fault.duration =
        random.Chance(300) ? random.Between(1'000, 50'000'000) : random.Between(1'000, 1'000'000);
    const bool stops = fault.fault == Fault::kPausePrefill || fault.fault == Fault::kPauseDecode;
    if (stops && random.Chance(600)) {  // the last is as good as for ever
      fault.duration = std::array<Micros, 3>{5'000'000, 30'000'000, 60'000'000}[random.Next() % 3];
    }
    timed.push_back(fault);
    heal_at = std::max(heal_at, fault.at + fault.duration);
  }
  heal_at = std::max<Micros>(heal_at, 1'000'000);
  policy = static_cast<int>(random.Between(0, 1));
  disaggregation = std::array{0, 0, 0, 1, 2, 2, 2, 2, 2, 2}[random.Next() % 10];
  queue = random.Chance(100) ? 6 : 64;
}

}  // namespace baton
