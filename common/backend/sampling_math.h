// The arithmetic of sampling a token, one source for the CPU's sampler and the CUDA kernels. It is
// constexpr, so that device code may call it, and in integers wherever an order of summation would
// show.
#pragma once

#include <cstdint>
#include <limits>

#include "common/backend/exact_math.h"
#include "common/base/philox.h"

namespace baton {

inline constexpr float kGreedyBelow = 1e-5f;  // a temperature below it means greedy
inline constexpr float kMinTemperature = 0.01f;
inline constexpr float kMaskedLogit = -std::numeric_limits<float>::infinity();
// Probability one in fixed point. A sum over 2^22 tokens still fits 63 bits.
inline constexpr float kOneWeight = 0x1p40f;
inline constexpr int kMaxSampledVocab = 1 << 22;

// The nearest finite number, but a masked logit stays masked.
constexpr float ClampLogit(float logit) {
  constexpr float kMax = std::numeric_limits<float>::max();
  if (logit == kMaskedLogit) return logit;
  return logit < -kMax ? -kMax : logit > kMax ? kMax : logit;
}

struct Penalties {
  float presence = 0;   // subtracted once from tokens in the output
  float frequency = 0;  // subtracted for each time that a token is in the output
  float repetition =
      1;  // divides the logits above 0 of tokens in prompt or output, multiplies others
};

// The penalised logit of a token that occurs in the prompt, or `output_count` times in the output.
constexpr float PenalizedLogit(float logit, int output_count, const Penalties& penalties) {
  logit = logit > 0 ? logit / penalties.repetition : logit * penalties.repetition;
  if (output_count > 0) {
    logit -= penalties.frequency * static_cast<float>(output_count);
    logit -= penalties.presence;
  }
  return ClampLogit(logit);
}

// exp((logit - max_logit) / temperature) * kOneWeight. The factor is a power of two, so this is
// exact. The integer part is the token's weight. REQUIRES: logit <= max_logit, which is finite.
[[gnu::always_inline]] constexpr float ScaledWeight(float logit, float max_logit,
                                                    float temperature) {
  return ExpF((logit - max_logit) / temperature) * kOneWeight;
}

// The least weight that a token may have under min_p.
constexpr int64_t MinWeight(float min_p) { return static_cast<int64_t>(min_p * kOneWeight); }

// The least sum of weights that the likeliest tokens must reach: top_p of `total`, rounded up, and
// at least 1. REQUIRES: top_p < 1.
constexpr uint64_t TopPWeight(uint64_t total, float top_p) {
  const auto share = static_cast<uint64_t>(static_cast<double>(top_p) * 0x1p32);
  const uint64_t high = (total >> 32) * share;  // share and each half are below 2^32
  const uint64_t low = (total & 0xffffffff) * share;
  const uint64_t weight = high + (low >> 32) + ((low & 0xffffffff) != 0 ? 1 : 0);
  return weight > 0 ? weight : 1;
}

// The high half of a * b.
constexpr uint64_t MultiplyHigh(uint64_t a, uint64_t b) {
  const uint64_t a_low = a & 0xffffffff, a_high = a >> 32;
  const uint64_t b_low = b & 0xffffffff, b_high = b >> 32;
  const uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
  const uint64_t carry = (middle & 0xffffffff) + a_low * b_high;
  return a_high * b_high + (middle >> 32) + (carry >> 32);
}

// The point in [0, total) that is drawn for one output of choice `choice`. The sampled token is the
// first, in ascending id, at which the sum of the weights up to and with its own exceeds the point.
constexpr uint64_t DrawPoint(uint64_t seed, int choice, int output_index, uint64_t total) {
  const PhiloxCounter bits = Philox4x32(
      {static_cast<uint32_t>(choice), static_cast<uint32_t>(output_index), /*draw=*/0, 0}, seed);
  return MultiplyHigh((uint64_t{bits[1]} << 32) | bits[0], total);
}

// A log probability is the token's distance to the largest logit minus this. `sum` is the sum of
// the weights at temperature 1.
constexpr float LogOfWeights(int64_t sum) {
  return static_cast<float>(Log(static_cast<double>(sum) / double{kOneWeight}));
}

}  // namespace baton
