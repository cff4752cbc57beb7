#include "common/backend/cpu/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "common/backend/cpu/simd/isa.h"
#include "common/backend/sampling_math.h"
#include "common/base/check.h"

namespace baton {
namespace {

// Computes every logit's weight; 0 for a masked one and for a weight less than `min_weight`.
struct WeightsKernel {
  [[gnu::always_inline]] static void Run(absl::Span<const float> logits, float max_logit,
                                         float temperature, int64_t min_weight, int64_t* weights) {
    constexpr size_t kPiece = 64;  // the first loop vectorises everywhere, the second with AVX-512
    float scaled[kPiece];
    for (size_t start = 0; start < logits.size(); start += kPiece) {
      const size_t count = std::min(kPiece, logits.size() - start);
      const float* piece = logits.data() + start;
      for (size_t i = 0; i < count; ++i) {
        scaled[i] = ScaledWeight(piece[i], max_logit, temperature);
      }
      for (size_t i = 0; i < count; ++i) {
        const auto weight = static_cast<int64_t>(scaled[i]);
        weights[start + i] = weight >= min_weight ? weight : 0;
      }
    }
  }
};

void ComputeWeights(absl::Span<const float> logits, float max_logit, float temperature,
                    int64_t min_weight, std::vector<int64_t>& weights) {
  RunOn<WeightsKernel>(BestCpuIsa(), logits, max_logit, temperature, min_weight, weights.data());
}

struct SumKernel {
  [[gnu::always_inline]] static void Run(absl::Span<const int64_t> weights, int64_t* const& out) {
    int64_t sum = 0;
    for (const int64_t weight : weights) sum += weight;
    *out = sum;
  }
};

int64_t Sum(absl::Span<const int64_t> weights) {
  int64_t sum = 0;
  int64_t* out = &sum;
  RunOn<SumKernel>(BestCpuIsa(), weights, out);
  return sum;
}

// The first token at which the sum of the weights up to and with its own exceeds `rest`.
size_t Walk(absl::Span<const int64_t> weights, int64_t rest) {
  constexpr size_t kStride = 1024;  // weights summed as a whole, which is faster
  size_t start = 0;
  for (; start < weights.size(); start += kStride) {
    const int64_t sum = Sum(weights.subspan(start, kStride));
    if (rest < sum) break;
    rest -= sum;
  }
  for (size_t i = start; i < weights.size(); ++i) {
    if (rest < weights[i]) return i;
    rest -= weights[i];
  }
  BATON_CHECK(false, "the draw lies beyond the sum of all weights");
}

struct Extremes {
  float max = 0;
  bool all_finite = true;
};

// Finds extremes by comparing floats as integers, because the maximum of integers vectorises.
// Magnitudes compare in their order, with infinity and NaN above all others. Values do so once the
// lower bits of the negative ones are inverted.
struct ExtremesKernel {
  [[gnu::always_inline]] static void Run(absl::Span<const float> values, Extremes* const& out) {
    constexpr int32_t kMagnitude = 0x7fffffff;
    constexpr int32_t kInfinity = 0x7f800000;
    int32_t max = std::numeric_limits<int32_t>::min();
    int32_t magnitude = 0;
    const float* x = values.data();
    const size_t count = values.size();
    for (size_t i = 0; i < count; ++i) {
      const int32_t bits = std::bit_cast<int32_t>(x[i]);
      const int32_t order = bits ^ ((bits >> 31) & kMagnitude);
      max = order > max ? order : max;
      magnitude = (bits & kMagnitude) > magnitude ? bits & kMagnitude : magnitude;
    }
    out->max = std::bit_cast<float>(max ^ ((max >> 31) & kMagnitude));
    out->all_finite = magnitude < kInfinity;
  }
};

Extremes FindExtremes(absl::Span<const float> values) {
  Extremes extremes;
  Extremes* out = &extremes;
  RunOn<ExtremesKernel>(BestCpuIsa(), values, out);
  return extremes;
}

// Copies the logits that the mask allows, and masks the others.
struct MaskKernel {
  [[gnu::always_inline]] static void Run(absl::Span<const float> logits,
                                         const uint32_t* const& mask, float* const& out) {
    constexpr size_t kWordBits = 32;
    for (size_t start = 0; start < logits.size(); start += kWordBits) {
      const size_t count = std::min(kWordBits, logits.size() - start);
      const uint32_t word = mask[start / kWordBits];
      for (size_t i = 0; i < count; ++i) {
        out[start + i] = (word >> i & 1) != 0 ? logits[start + i] : kMaskedLogit;
      }
    }
  }
};

// Orders candidates: the likelier first, and of two that are as likely the lower id.
constexpr auto kLikelierFirst = [](const auto& a, const auto& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token_id < b.token_id;
};

}  // namespace

int32_t ArgMax(absl::Span<const float> logits) {
  const auto found = std::find(logits.begin(), logits.end(), FindExtremes(logits).max);
  return found == logits.end() ? 0 : static_cast<int32_t>(found - logits.begin());
}

Sampler::Sampler(int vocab_size, std::vector<int32_t> end_of_generation_ids)
    : vocab_size_(vocab_size),
      end_of_generation_ids_(std::move(end_of_generation_ids)),
      weights_(static_cast<size_t>(vocab_size)) {}

absl::StatusOr<OutputToken> Sampler::Choose(absl::Span<const float> logits,
                                            const SamplingContext& context) {
  BATON_CHECK(logits.size() == static_cast<size_t>(vocab_size_), "a row of logits is incomplete");
  if (!FindExtremes(logits).all_finite) return LogitNotFinite(context.output_index);
  if (context.mask == nullptr) {
    adjusted_.assign(logits.begin(), logits.end());
  } else {
    adjusted_.resize(logits.size());
    float* out = adjusted_.data();
    RunOn<MaskKernel>(BestCpuIsa(), logits, context.mask, out);
  }
  Adjust(context);
  const int32_t likeliest = ArgMax(adjusted_);
  const float max_logit = adjusted_[static_cast<size_t>(likeliest)];
  if (max_logit == kMaskedLogit) return AllMasked();
  OutputToken token{.output_index = context.output_index};
  token.token_id =
      context.sampling.temperature < kGreedyBelow ? likeliest : Draw(context, max_logit);
  if (context.sampling.logprobs) {
    token.logprobs = Logprobs(logits, token.token_id, *context.sampling.logprobs);
  }
  return token;
}

absl::StatusOr<TokenLogprobs> Sampler::Score(absl::Span<const float> logits,
                                             const ScoredToken& token) {
  BATON_CHECK(logits.size() == static_cast<size_t>(vocab_size_), "a row of logits is incomplete");
  if (!FindExtremes(logits).all_finite) return PromptLogitNotFinite();
  return Logprobs(logits, token.token_id, token.top_count);
}

void Sampler::Adjust(const SamplingContext& context) {
  const SamplingParams& sampling = context.sampling;
  for (const auto& [id, bias] : sampling.logit_bias) {
    adjusted_[static_cast<size_t>(id)] = ClampLogit(adjusted_[static_cast<size_t>(id)] + bias);
  }
  if (context.output_index < sampling.min_tokens) {
    if (context.mask == nullptr) {
      for (int32_t id : end_of_generation_ids_) adjusted_[static_cast<size_t>(id)] = kMaskedLogit;
    }
    for (int32_t id : sampling.stop_token_ids) adjusted_[static_cast<size_t>(id)] = kMaskedLogit;
  }
  const Penalties penalties = {.presence = sampling.presence_penalty,
                               .frequency = sampling.frequency_penalty,
                               .repetition = sampling.repetition_penalty};
  for (const auto& [id, output_count] : context.counts.output_counts()) {
    float& logit = adjusted_[static_cast<size_t>(id)];
    logit = PenalizedLogit(logit, output_count, penalties);
  }
}

int32_t Sampler::Draw(const SamplingContext& context, float max_logit) {
  const SamplingParams& sampling = context.sampling;
  const float temperature = std::max(sampling.temperature, kMinTemperature);
  ComputeWeights(adjusted_, max_logit, temperature, MinWeight(sampling.min_p), weights_);
  if (sampling.top_k > 0 || sampling.top_p < 1) KeepCandidates(sampling);
  const auto total = static_cast<uint64_t>(Sum(weights_));
  const uint64_t rest = DrawPoint(sampling.seed, context.choice, context.output_index, total);
  return static_cast<int32_t>(Walk(weights_, static_cast<int64_t>(rest)));
}

// Lists the tokens that have weight and applies top_k and top_p. All other tokens lose their
// weight.
void Sampler::KeepCandidates(const SamplingParams& sampling) {
  candidates_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0) {
      candidates_.push_back({weights_[i], adjusted_[i], static_cast<int32_t>(i)});
    }
  }
  if (sampling.top_k > 0) KeepTopK(sampling.top_k);
  if (sampling.top_p < 1) KeepTopP(sampling.top_p);
  std::fill(weights_.begin(), weights_.end(), 0);
  for (const Candidate& candidate : candidates_) {
    weights_[static_cast<size_t>(candidate.token_id)] = candidate.weight;
  }
}

void Sampler::KeepTopK(int top_k) {
  const auto count = static_cast<size_t>(top_k);
  if (candidates_.size() <= count) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + top_k, candidates_.end(),
                   kLikelierFirst);
  candidates_.resize(count);
}

// Keeps the fewest likeliest tokens whose probabilities sum to top_p. Sorts only as far as needed.
void Sampler::KeepTopP(float top_p) {
  uint64_t total = 0;
  for (const Candidate& candidate : candidates_) total += static_cast<uint64_t>(candidate.weight);
  const uint64_t wanted = TopPWeight(total, top_p);
  uint64_t sum = 0;
  for (size_t sorted = 0, piece = 64; sorted < candidates_.size(); piece *= 4) {
    const size_t end = std::min(candidates_.size(), sorted + piece);
    const auto at = [&](size_t i) { return candidates_.begin() + static_cast<std::ptrdiff_t>(i); };
    std::partial_sort(at(sorted), at(end), candidates_.end(), kLikelierFirst);
    for (; sorted < end; ++sorted) {
      sum += static_cast<uint64_t>(candidates_[sorted].weight);
      if (sum >= wanted) {
        candidates_.resize(sorted + 1);
        return;
      }
    }
  }
}

TokenLogprobs Sampler::Logprobs(absl::Span<const float> logits, int32_t token_id, int top_count) {
  const float max_logit = logits[static_cast<size_t>(ArgMax(logits))];
  ComputeWeights(logits, max_logit, /*temperature=*/1, /*min_weight=*/0, weights_);
  const float log_sum = LogOfWeights(Sum(weights_));
  const auto logprob = [&](int32_t id) {
    return (logits[static_cast<size_t>(id)] - max_logit) - log_sum;
  };

  TokenLogprobs result{.logprob = logprob(token_id)};
  const auto wanted = std::min(logits.size(), static_cast<size_t>(top_count));
  std::vector<Candidate> top;  // likeliest first
  for (int32_t id = 0; id < vocab_size_ && wanted > 0; ++id) {
    const Candidate candidate{0, logits[static_cast<size_t>(id)], id};
    if (top.size() == wanted && !kLikelierFirst(candidate, top.back())) continue;
    if (top.size() == wanted) top.pop_back();
    top.insert(std::upper_bound(top.begin(), top.end(), candidate, kLikelierFirst), candidate);
  }
  for (const Candidate& candidate : top) {
    result.top.push_back({candidate.token_id, logprob(candidate.token_id)});
  }
  return result;
}

}  // namespace baton
