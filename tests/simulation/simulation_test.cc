// Sender, receiver, fence and block pools under everything that a network and a cluster can do.
//
// BATON_SIM_SEEDS and BATON_SIM_FIRST choose other seeds than the fixed ones (a failure names its
// seed).
#include "tests/simulation/simulation.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// The sanitizers make it ten times slower; what is never exercised is found without them.
#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kSeeds = 60;
#else
constexpr uint64_t kSeeds = 500;
#endif

constexpr int kEnoughViolations = 5;

TEST(Simulation, HoldsItsInvariantsOverEverySeedAndExercisesAllOfIt) {
  const uint64_t first = FromEnvironment("BATON_SIM_FIRST", 1);
  const uint64_t seeds = FromEnvironment("BATON_SIM_SEEDS", kSeeds);
  google::protobuf::LogSilencer silencer;  // damaged messages are the point
  Coverage all;
  uint64_t fewest_events = UINT64_MAX;
  uint64_t fewest_faults = UINT64_MAX;
  Micros longest_rest = 0;
  const auto start = std::chrono::steady_clock::now();
  uint64_t too_easy = 0;
  int violations = 0;
  uint64_t traces = 0;  // a hash of every run's trace: code that behaves as before gives the same
  for (uint64_t seed = first; seed < first + seeds + too_easy; ++seed) {
    const SimResult once = RunSimulation(seed);
    const SimResult again = RunSimulation(seed);
    EXPECT_EQ(once.violation, "") << "seed " << seed;
    if (!once.violation.empty()) {
      if (++violations == kEnoughViolations) return;
      continue;
    }
    ASSERT_EQ(once.trace, again.trace) << "seed " << seed << " is not deterministic";
    // A run in which too little happens holds as the others do, but does not count.
    if (once.coverage.EventCount() < 1000 || once.coverage.FaultCount() < 4) {
      ++too_easy;
      continue;
    }
    fewest_events = std::min(fewest_events, once.coverage.EventCount());
    fewest_faults = std::min(fewest_faults, once.coverage.FaultCount());
    longest_rest = std::max(longest_rest, once.rested_at - once.healed_at);
    all.Add(once.coverage);
    traces = Mix64(traces ^ once.trace);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << all.Table() << seeds << " seeds, each twice, in " << seconds << " s ("
            << static_cast<double>(seeds) / seconds << " a second); at least " << fewest_events
            << " events and " << fewest_faults << " faults; at rest at most "
            << static_cast<double>(longest_rest) / 1e6 << " s after healing; " << too_easy
            << " seeds too easy to count; all traces hash to " << traces << "\n";
  EXPECT_LE(too_easy, seeds / 10) << "the plan leaves too much out";
  if (seeds >= 500) {
    EXPECT_EQ(all.Missing(), "") << "never exercised";
  }
}

}  // namespace
}  // namespace baton
