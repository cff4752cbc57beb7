// Ways to compute the same tokens, all of which must give the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/backend/cpu/simd/isa.h"
#include "tests/support/model_runner.h"

namespace baton {

// How the tokens of a sequence are cut into passes, and with whom it shares them.
enum class Schedule {
  kAtOnce,     // one prefill
  kOneByOne,   // decode steps
  kAscending,  // chunks of 1, 2, 3, ... tokens
  kPages,      // chunks of 16
  kWithMates,  // random chunks, beside random chunks of three other sequences in random order
};
inline constexpr Schedule kSchedules[] = {Schedule::kAtOnce, Schedule::kOneByOne,
                                          Schedule::kAscending, Schedule::kPages,
                                          Schedule::kWithMates};

// What may differ between two computations that must agree.
struct Way {
  CpuIsa isa = CpuIsa::kPortable;
  int threads = 1;
  int block_size = 32;
  Schedule schedule = Schedule::kAtOnce;
};
// Whether one ModelRunner can compute both.
bool SameRunner(const Way& a, const Way& b);
// "avx2, 3 threads, blocks of 16, one by one".
std::string Describe(const Way& way);

// All ways that the instruction sets of this CPU allow, those of one runner (all schedules of one
// instruction set, thread count and block size) together.
std::vector<Way> AllWays();
// A few of AllWays such that any two values of two different fields meet in one of them. The same
// sample every time.
std::vector<Way> PairwiseWays();

// One computation of a sequence, reduced to its bytes.
struct Outcome {
  std::vector<float> logits;  // [tokens, vocab_size]
  std::vector<uint8_t> kv;    // of the whole sequence

  // The first tokens' logits, without KV.
  Outcome Head(int tokens, int vocab_size) const;
  // This one's tokens, and those that `next` computed after them in the same sequence.
  Outcome Then(const Outcome& next) const;
};

// "" when both are the same bits; else the first place where they differ.
std::string FirstDifference(const Outcome& expected, const Outcome& actual, int vocab_size);
// Whether all logits are finite: else equal bits say little.
bool AllFinite(const Outcome& outcome);
// How many different logits there are.
int Distinct(const Outcome& outcome);

std::vector<int32_t> RandomTokens(int count, int vocab_size, uint32_t seed);

// `options` with the runner's part of `way`.
ModelRunnerOptions With(ModelRunnerOptions options, const Way& way);
// `tokens` appended to `sequence`, cut as the schedule says. Mates are released at the end.
Outcome Compute(ModelRunner& runner, int sequence, const std::vector<int32_t>& tokens,
                Schedule schedule);

}  // namespace baton
