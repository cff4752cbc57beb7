// The ways of computing the same tokens, all of which must give the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/backend/cpu/simd/isa.h"
#include "tests/support/model_runner.h"

namespace baton {

// How the tokens of a sequence are divided into passes, and whether other sequences share these.
enum class Schedule {
  kAtOnce,     // one prefill of all tokens
  kOneByOne,   // decode steps of one token
  kAscending,  // chunks of 1, 2, 3, ... tokens
  kPages,      // chunks of 16 tokens
  kWithMates,  // random chunks, beside random chunks of three other sequences in random order
};
inline constexpr Schedule kSchedules[] = {Schedule::kAtOnce, Schedule::kOneByOne,
                                          Schedule::kAscending, Schedule::kPages,
                                          Schedule::kWithMates};

// A way of computing: what may differ between two computations that must give the same bits.
struct Way {
  CpuIsa isa = CpuIsa::kPortable;
  int threads = 1;
  int block_size = 32;
  Schedule schedule = Schedule::kAtOnce;
};
// Whether one ModelRunner can compute both ways.
bool SameRunner(const Way& a, const Way& b);
// The way in words, such as "avx2, 3 threads, blocks of 16, one by one".
std::string Describe(const Way& way);

// All ways that the instruction sets of this CPU allow. The ways of one runner (all schedules of
// one instruction set, number of threads and block size) stand together.
std::vector<Way> AllWays();
// A few of AllWays, the same in every call, such that any two values of two different fields occur
// together in one of them.
std::vector<Way> PairwiseWays();

// The bytes that one computation of a sequence gave.
struct Outcome {
  std::vector<float> logits;  // [tokens, vocab_size]
  std::vector<uint8_t> kv;    // K and V of the whole sequence

  // The logits of the first tokens, without KV.
  Outcome Head(int tokens, int vocab_size) const;
  // This outcome joined with that of the tokens that `next` computed after them in the same
  // sequence.
  Outcome Then(const Outcome& next) const;
};

// The first place where the bits differ; "" if they are all equal.
std::string FirstDifference(const Outcome& expected, const Outcome& actual, int vocab_size);
// Whether all logits are finite. If not, equal bits say little.
bool AllFinite(const Outcome& outcome);
// The number of different logits.
int Distinct(const Outcome& outcome);

std::vector<int32_t> RandomTokens(int count, int vocab_size, uint32_t seed);

// `options` with the fields of `way` that concern the runner.
ModelRunnerOptions With(ModelRunnerOptions options, const Way& way);
// Appends `tokens` to `sequence`, divided as the schedule says. Releases the mates at the end.
Outcome Compute(ModelRunner& runner, int sequence, const std::vector<int32_t>& tokens,
                Schedule schedule);

}  // namespace baton
