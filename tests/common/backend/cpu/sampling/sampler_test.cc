#include "common/backend/cpu/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "common/base/philox.h"
#include "common/base/token_mask.h"

namespace baton {
namespace {

constexpr int kVocab = 200;
const std::vector<int32_t> kEndIds = {3, 17};

std::vector<float> RandomLogits(std::mt19937& random, int vocab = kVocab) {
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// The specification of sampler.h, written a second time, plainly and in double.
struct Reference {
  int32_t token_id = -1;
  std::map<int32_t, double> probabilities;  // what the draw sees
  bool on_a_border = false;                 // rounding may decide
};

// The tokens that a mask allows; empty: no mask.
using Allowed = std::vector<bool>;

// The logits with the mask, biases and penalties.
std::vector<double> Adjusted(const std::vector<float>& logits, const SamplingParams& params,
                             const std::vector<int32_t>& prompt, const std::vector<int32_t>& output,
                             const Allowed& allowed) {
  std::vector<double> x(logits.begin(), logits.end());
  for (size_t id = 0; id < allowed.size(); ++id) {
    if (!allowed[id]) x[id] = -INFINITY;
  }
  for (auto [id, bias] : params.logit_bias) x[static_cast<size_t>(id)] += double{bias};
  if (static_cast<int>(output.size()) < params.min_tokens) {
    for (int32_t id : allowed.empty() ? kEndIds : std::vector<int32_t>()) {
      x[static_cast<size_t>(id)] = -INFINITY;
    }
    for (int32_t id : params.stop_token_ids) x[static_cast<size_t>(id)] = -INFINITY;
  }
  for (size_t id = 0; id < x.size(); ++id) {
    const auto in_prompt = std::count(prompt.begin(), prompt.end(), static_cast<int32_t>(id));
    const auto in_output = std::count(output.begin(), output.end(), static_cast<int32_t>(id));
    if (in_prompt + in_output > 0) {
      x[id] = x[id] > 0 ? x[id] / params.repetition_penalty : x[id] * params.repetition_penalty;
    }
    x[id] -= params.frequency_penalty * static_cast<double>(in_output);
    if (in_output > 0) x[id] -= params.presence_penalty;
  }
  return x;
}

Reference Choose(const std::vector<float>& logits, const SamplingParams& params,
                 const std::vector<int32_t>& prompt, const std::vector<int32_t>& output, int choice,
                 const Allowed& allowed = {}) {
  constexpr double kNear = 1e-6;
  Reference result;
  const std::vector<double> x = Adjusted(logits, params, prompt, output, allowed);
  std::vector<int32_t> order(x.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)];
  });
  const double max = x[static_cast<size_t>(order[0])];
  if (params.temperature < 1e-5f) {
    result.token_id = order[0];
    result.on_a_border = max - x[static_cast<size_t>(order[1])] < kNear;
    return result;
  }
  const double temperature = std::max(0.01, double{params.temperature});
  const auto weight = [&](int32_t id) {
    return std::exp((x[static_cast<size_t>(id)] - max) / temperature);
  };
  std::vector<int32_t> kept;
  for (int32_t id : order) {
    result.on_a_border |= params.min_p > 0 && std::fabs(weight(id) - params.min_p) < kNear;
    if (weight(id) >= params.min_p) kept.push_back(id);
  }
  if (params.top_k > 0 && kept.size() > static_cast<size_t>(params.top_k)) {
    kept.resize(static_cast<size_t>(params.top_k));
  }
  double total = 0;
  for (int32_t id : kept) total += weight(id);
  if (params.top_p < 1) {
    double sum = 0;
    for (size_t i = 0; i < kept.size(); ++i) {
      sum += weight(kept[i]);
      result.on_a_border |= std::fabs(sum / total - params.top_p) < kNear;
      if (sum >= params.top_p * total) {
        kept.resize(i + 1);
        break;
      }
    }
    total = sum;
  }
  std::sort(kept.begin(), kept.end());
  for (int32_t id : kept) result.probabilities[id] = weight(id) / total;

  const PhiloxCounter bits = Philox4x32(
      {static_cast<uint32_t>(choice), static_cast<uint32_t>(output.size()), 0, 0}, params.seed);
  const double uniform =
      (static_cast<double>(bits[1]) + static_cast<double>(bits[0]) * 0x1p-32) * 0x1p-32;
  double sum = 0;
  for (auto [id, probability] : result.probabilities) {
    sum += probability;
    result.on_a_border |= std::fabs(sum - uniform) < kNear;
    if (result.token_id < 0 && uniform < sum) result.token_id = id;
  }
  return result;
}

OutputToken Sample(Sampler& sampler, const std::vector<float>& logits, const SamplingParams& params,
                   const std::vector<int32_t>& prompt = {}, const std::vector<int32_t>& output = {},
                   int choice = 0, const Allowed& allowed = {}) {
  std::vector<uint32_t> mask(MaskWords(kVocab));
  for (size_t id = 0; id < allowed.size(); ++id) {
    if (allowed[id]) mask[id / 32] |= uint32_t{1} << (id % 32);
  }
  std::vector<int32_t> all = prompt;
  all.insert(all.end(), output.begin(), output.end());
  const TokenCounts counts(params, all, static_cast<int>(prompt.size()));
  return *sampler.Choose(logits, {.sampling = params,
                                  .counts = counts,
                                  .choice = choice,
                                  .output_index = static_cast<int>(output.size()),
                                  .mask = allowed.empty() ? nullptr : mask.data()});
}

// Allows tokens at random, and at least one that nothing else masks.
Allowed RandomAllowed(std::mt19937& random) {
  Allowed allowed(kVocab);
  const auto one_in = 1 + random() % 40;
  for (size_t id = 0; id < allowed.size(); ++id) allowed[id] = random() % one_in == 0;
  allowed[7] = true;
  return allowed;
}

std::vector<int32_t> RandomTokens(std::mt19937& random, size_t most) {
  std::vector<int32_t> tokens(random() % (most + 1));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % kVocab);
  return tokens;
}

SamplingParams RandomParams(std::mt19937& random) {
  const auto uniform = [&](double low, double high) {
    return static_cast<float>(std::uniform_real_distribution<double>(low, high)(random));
  };
  SamplingParams params;
  params.seed = (uint64_t{random()} << 32) | random();
  if (random() % 2) params.temperature = random() % 4 == 0 ? 0 : uniform(0.2, 2);
  if (random() % 2) params.top_p = uniform(0.01, 1);
  if (random() % 2) params.top_k = static_cast<int>(random() % 250);
  if (random() % 2) params.min_p = uniform(0, 0.5);
  if (random() % 2) params.presence_penalty = uniform(-2, 2);
  if (random() % 2) params.frequency_penalty = uniform(-2, 2);
  if (random() % 2) params.repetition_penalty = uniform(0.5, 2);
  if (random() % 2) params.min_tokens = static_cast<int>(random() % 30);
  if (random() % 2) params.stop_token_ids = {5, 60, 61};
  for (size_t i = random() % 4; i > 0; --i) {
    params.logit_bias[static_cast<int32_t>(random() % kVocab)] = uniform(-20, 20);
  }
  return params;
}

TEST(Sampler, ChoosesAsANaiveReferenceDoesWhateverTheParameters) {
  std::mt19937 random(1);
  Sampler sampler(kVocab, kEndIds);
  int compared = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::vector<float> logits = RandomLogits(random);
    const SamplingParams params = RandomParams(random);
    const std::vector<int32_t> prompt = RandomTokens(random, 60);
    const std::vector<int32_t> output = RandomTokens(random, 40);
    const int choice = static_cast<int>(random() % 3);
    const Allowed allowed = round % 3 == 0 ? RandomAllowed(random) : Allowed();
    const Reference reference = Choose(logits, params, prompt, output, choice, allowed);
    if (reference.on_a_border) continue;
    ++compared;
    ASSERT_EQ(Sample(sampler, logits, params, prompt, output, choice, allowed).token_id,
              reference.token_id)
        << "round " << round;
  }
  EXPECT_GT(compared, 4900);
}

TEST(Sampler, AMaskLeavesTheLogProbabilitiesOfTheRawLogits) {
  std::mt19937 random(3);
  Sampler sampler(kVocab, kEndIds);
  SamplingParams params = {.temperature = 0, .logprobs = 5};
  const std::vector<float> logits = RandomLogits(random);
  const OutputToken free = Sample(sampler, logits, params);
  Allowed allowed(kVocab, true);
  allowed[static_cast<size_t>(free.token_id)] = false;
  const OutputToken masked = Sample(sampler, logits, params, {}, {}, 0, allowed);
  EXPECT_EQ(masked.token_id, free.logprobs->top[1].token_id);
  EXPECT_EQ(masked.logprobs->logprob, free.logprobs->top[1].logprob);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(masked.logprobs->top[i].token_id, free.logprobs->top[i].token_id);
    EXPECT_EQ(masked.logprobs->top[i].logprob, free.logprobs->top[i].logprob);
  }
}

TEST(Sampler, TellsWhereAMaskAllowsNothing) {
  Sampler sampler(kVocab, kEndIds);
  const SamplingParams params;
  const std::vector<uint32_t> nothing(MaskWords(kVocab));
  EXPECT_EQ(sampler
                .Choose(std::vector<float>(kVocab, 1.0f), {.sampling = params,
                                                           .counts = TokenCounts(params, {}, 0),
                                                           .mask = nothing.data()})
                .status(),
            AllMasked());
}

TEST(Sampler, DrawsFromALargeVocabularyTheSameWithAFilterThatRestrictsNothing) {
  constexpr int kLarge = 2500;  // several strides of the walk, the last one short
  std::mt19937 random(7);
  Sampler sampler(kLarge, kEndIds);
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> logits = RandomLogits(random, kLarge);
    SamplingParams params;
    params.seed = random();
    params.temperature = 0.5f + static_cast<float>(random() % 8);
    params.min_p = random() % 2 ? 1e-3f : 0;
    const Reference reference = Choose(logits, params, {}, {}, /*choice=*/0);
    const int32_t token_id = Sample(sampler, logits, params).token_id;
    if (!reference.on_a_border) {
      EXPECT_EQ(token_id, reference.token_id);
    }
    params.top_k = kLarge;
    EXPECT_EQ(Sample(sampler, logits, params).token_id, token_id) << "top_k";
    params.top_k = 0;
    params.top_p = 1 - 0x1p-24f;  // the largest below 1: all but a vanishing share
    const int32_t with_top_p = Sample(sampler, logits, params).token_id;
    if (params.min_p > 0) {
      EXPECT_EQ(with_top_p, token_id) << "top_p";
    }
  }
}

TEST(Sampler, DrawsWithTheProbabilitiesOfTheSoftmax) {
  std::mt19937 random(2);
  constexpr int kSmallVocab = 12;
  constexpr int kDraws = 40000;
  std::vector<float> logits = RandomLogits(random, kSmallVocab);
  for (float& logit : logits) logit /= 4;
  Sampler sampler(kSmallVocab, {});
  const Reference reference = Choose(logits, {.temperature = 0.8f}, {}, {}, 0);
  std::vector<int> counts(kSmallVocab);
  for (int seed = 0; seed < kDraws; ++seed) {
    const SamplingParams params{.temperature = 0.8f, .seed = static_cast<uint64_t>(seed)};
    ++counts[static_cast<size_t>(Sample(sampler, logits, params).token_id)];
  }
  double chi_square = 0;
  for (auto [id, probability] : reference.probabilities) {
    const double expected = probability * kDraws;
    const double difference = counts[static_cast<size_t>(id)] - expected;
    chi_square += difference * difference / expected;
  }
  EXPECT_LT(chi_square, 31.26);  // 11 degrees of freedom, 1 in 1000
}

TEST(Sampler, DrawsAnewForEachOutputIndexAndChoice) {
  const std::vector<float> logits(kVocab, 0);
  Sampler sampler(kVocab, {});
  std::set<int32_t> by_index, by_choice;
  for (int i = 0; i < 50; ++i) {
    by_index.insert(
        Sample(sampler, logits, {.seed = 9}, {}, std::vector<int32_t>(static_cast<size_t>(i)))
            .token_id);
    by_choice.insert(Sample(sampler, logits, {.seed = 9}, {}, {}, i).token_id);
  }
  EXPECT_GT(by_index.size(), 30u);
  EXPECT_GT(by_choice.size(), 30u);
}

TEST(Sampler, TiesGoToTheLowerId) {
  std::vector<float> logits(kVocab, -20);
  logits[40] = logits[41] = logits[90] = 2;
  Sampler sampler(kVocab, {});
  EXPECT_EQ(Sample(sampler, logits, {.temperature = 0}).token_id, 40);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(Sample(sampler, logits, {.top_k = 1, .seed = seed}).token_id, 40);
    EXPECT_EQ(Sample(sampler, logits, {.top_p = 0.3f, .seed = seed}).token_id, 40);
    EXPECT_LE(Sample(sampler, logits, {.top_k = 2, .seed = seed}).token_id, 41);
  }
  const OutputToken token = Sample(sampler, logits, {.temperature = 0, .logprobs = 4});
  std::vector<int32_t> top;
  for (const TokenLogprobs::Top& entry : token.logprobs->top) top.push_back(entry.token_id);
  EXPECT_THAT(top, testing::ElementsAre(40, 41, 90, 0));
}

TEST(Sampler, ATinyTemperatureIsClampedAndATinierOneIsGreedy) {
  std::vector<float> logits(kVocab, -100);
  logits[7] = 1.0f;
  logits[8] = 1.001f;
  Sampler sampler(kVocab, {});
  std::set<int32_t> clamped, greedy;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const SamplingParams tiny{.temperature = 2e-5f, .seed = seed};
    const SamplingParams least{.temperature = 0.01f, .seed = seed};
    clamped.insert(Sample(sampler, logits, tiny).token_id);
    EXPECT_EQ(Sample(sampler, logits, tiny).token_id, Sample(sampler, logits, least).token_id);
    greedy.insert(Sample(sampler, logits, {.temperature = 0.9e-5f, .seed = seed}).token_id);
  }
  EXPECT_THAT(clamped, testing::ElementsAre(7, 8));
  EXPECT_THAT(greedy, testing::ElementsAre(8));
}

TEST(Sampler, LogprobsAreTheLogSoftmaxOfTheRawLogits) {
  std::mt19937 random(3);
  Sampler sampler(kVocab, kEndIds);
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> logits = RandomLogits(random);
    SamplingParams params = RandomParams(random);
    params.logprobs = 20;
    const OutputToken token = Sample(sampler, logits, params, {1, 2}, {3});
    double sum = 0;
    for (float logit : logits) sum += std::exp(double{logit});
    const auto exact = [&](int32_t id) { return logits[static_cast<size_t>(id)] - std::log(sum); };
    EXPECT_NEAR(token.logprobs->logprob, exact(token.token_id), 2e-6);
    ASSERT_EQ(token.logprobs->top.size(), 20u);
    std::vector<float> sorted = logits;
    std::sort(sorted.rbegin(), sorted.rend());
    for (size_t i = 0; i < 20; ++i) {
      const TokenLogprobs::Top& top = token.logprobs->top[i];
      EXPECT_EQ(logits[static_cast<size_t>(top.token_id)], sorted[i]);
      EXPECT_NEAR(top.logprob, exact(top.token_id), 2e-6);
    }
  }
}

TEST(Sampler, ALogitThatIsNoNumberFailsTheSequence) {
  Sampler sampler(kVocab, {});
  const SamplingParams params;
  const TokenCounts counts(params, {}, 0);
  for (float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    std::vector<float> logits(kVocab, 0);
    logits[100] = bad;
    const auto token = sampler.Choose(logits, {.sampling = params, .counts = counts});
    EXPECT_EQ(token.status().code(), absl::StatusCode::kInternal);
  }
}

TEST(Sampler, ExtremePenaltiesStillChooseAToken) {
  std::mt19937 random(4);
  const std::vector<float> logits = RandomLogits(random);
  Sampler sampler(kVocab, kEndIds);
  for (float penalty : {1e-38f, 3e38f}) {
    for (float temperature : {0.0f, 1e-3f, 1.0f, 1e30f}) {
      const OutputToken token =
          Sample(sampler, logits, {.temperature = temperature, .repetition_penalty = penalty},
                 {1, 2, 3}, {4, 5});
      EXPECT_GE(token.token_id, 0);
      EXPECT_LT(token.token_id, kVocab);
    }
  }
}

TEST(Sampler, RefusesARequestWhoseMaskLeavesNoToken) {
  Sampler sampler(2, {0});
  const SamplingParams params{.min_tokens = 1, .stop_token_ids = {1}};
  const TokenCounts counts(params, {}, 0);
  const auto token =
      sampler.Choose(std::vector<float>{1, 2}, {.sampling = params, .counts = counts});
  EXPECT_EQ(token.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
