// Rows for the device's sampler and its answers, for the sampler's tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ostream>
#include <random>
#include <vector>

#include "common/backend/cpu/sampling/sampler.h"
#include "common/backend/cuda/sampling/sampler.h"
#include "common/base/token_mask.h"
#include "tests/support/cuda_shim/device_array.h"

namespace baton {

// The sampling of one row, as the engine would ask for it.
struct Question {
  std::vector<float> logits = {};
  SamplingParams params = {};
  std::vector<int32_t> prompt = {};
  std::vector<int32_t> output = {};
  int choice = 0;
  std::vector<uint32_t> mask = {};  // empty: none

  const uint32_t* mask_or_null() const { return mask.empty() ? nullptr : mask.data(); }
  TokenCounts Counts() const {
    std::vector<int32_t> all = prompt;
    all.insert(all.end(), output.begin(), output.end());
    return TokenCounts(params, all, static_cast<int>(prompt.size()));
  }
  bool counts_tokens() const { return TokenCounts::AskedFor(params); }
};

inline void PrintTo(const Question& question, std::ostream* out) {
  const SamplingParams& params = question.params;
  *out << question.logits.size() << " logits, temperature " << params.temperature << ", top_k "
       << params.top_k << ", top_p " << params.top_p << ", min_p " << params.min_p << ", penalties "
       << params.presence_penalty << " " << params.frequency_penalty << " "
       << params.repetition_penalty << ", output " << question.output.size() << " of at least "
       << params.min_tokens << ", " << params.stop_token_ids.size() << " stop ids, "
       << params.logit_bias.size() << " biases" << (question.mask.empty() ? "" : ", a mask");
}

struct Answer {
  int32_t token_id = 0;
  SamplerError error = SamplerError::kNone;
  SamplerLogprobs logprobs;
  std::map<int32_t, int> counts;
};

// The lists of all questions, one after the other, as a SamplerBatch refers to them.
struct HostBatch {
  std::vector<float> logits = {};
  std::vector<SamplerRow> params;
  std::vector<LogitBias> biases;
  std::vector<int32_t> stop_ids;
  std::vector<uint32_t> masks;
  std::vector<TokenCount> counts;
  std::vector<int32_t> count_sizes;
};

inline HostBatch Pack(const std::vector<Question>& questions, int counts_capacity) {
  HostBatch host;
  for (const Question& question : questions) {
    const SamplingParams& params = question.params;
    host.logits.insert(host.logits.end(), question.logits.begin(), question.logits.end());
    SamplerRow row = {.temperature = params.temperature,
                      .top_p = params.top_p,
                      .top_k = params.top_k,
                      .min_p = params.min_p,
                      .presence_penalty = params.presence_penalty,
                      .frequency_penalty = params.frequency_penalty,
                      .repetition_penalty = params.repetition_penalty,
                      .min_tokens = params.min_tokens,
                      .seed = params.seed,
                      .choice = question.choice,
                      .output_index = static_cast<int32_t>(question.output.size()),
                      .top_logprobs = params.logprobs.value_or(-1),
                      .first_bias = static_cast<int32_t>(host.biases.size()),
                      .bias_count = static_cast<int32_t>(params.logit_bias.size()),
                      .first_stop_id = static_cast<int32_t>(host.stop_ids.size()),
                      .stop_id_count = static_cast<int32_t>(params.stop_token_ids.size()),
                      .masked = question.mask.empty() ? 0 : 1};
    host.masks.insert(host.masks.end(), question.mask.begin(), question.mask.end());
    host.masks.resize((host.params.size() + 1) *
                      MaskWords(static_cast<int32_t>(question.logits.size())));
    for (const auto& [id, bias] : params.logit_bias) host.biases.push_back({id, bias});
    host.stop_ids.insert(host.stop_ids.end(), params.stop_token_ids.begin(),
                         params.stop_token_ids.end());
    if (question.counts_tokens()) {
      row.counts_slot = static_cast<int32_t>(host.count_sizes.size());
      const TokenCounts counts = question.Counts();
      for (const auto& [id, count] : counts.output_counts()) host.counts.push_back({id, count});
      host.count_sizes.push_back(static_cast<int32_t>(counts.output_counts().size()));
      host.counts.resize(host.count_sizes.size() * static_cast<size_t>(counts_capacity));
    }
    host.params.push_back(row);
  }
  return host;
}

// The questions' rows and lists in device memory, at addresses that stay.
class DeviceBatch {
 public:
  DeviceBatch(const std::vector<Question>& questions, const std::vector<int32_t>& end_ids,
              int counts_capacity)
      : host_(Pack(questions, counts_capacity)),
        capacity_(counts_capacity),
        rows_(static_cast<int>(questions.size())),
        vocab_size_(static_cast<int>(questions[0].logits.size())),
        logits_(host_.logits),
        params_(host_.params),
        biases_(host_.biases),
        stop_ids_(host_.stop_ids),
        end_ids_(end_ids),
        masks_(host_.masks),
        counts_(host_.counts),
        count_sizes_(host_.count_sizes),
        scratch_(SamplerScratchBytes(rows_, vocab_size_)),
        token_ids_(questions.size()),
        errors_(questions.size()),
        logprobs_(std::vector<SamplerLogprobs>(questions.size())) {
    batch_ = {.rows = rows_,
              .vocab_size = vocab_size_,
              .logits = logits_.data(),
              .params = params_.data(),
              .biases = biases_.data(),
              .stop_ids = stop_ids_.data(),
              .end_ids = end_ids_.data(),
              .end_id_count = static_cast<int>(end_ids.size()),
              .masks = masks_.data(),
              .counts_capacity = counts_capacity,
              .counts = counts_.data(),
              .count_sizes = count_sizes_.data(),
              .scratch = scratch_.data(),
              .token_ids = token_ids_.data(),
              .errors = errors_.data(),
              .logprobs = logprobs_.data()};
  }

  void Launch(const SamplerShape& shape) const {
    LaunchSample(batch_, shape, /*stream=*/nullptr);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  // Replaces the contents, as before the replay of a captured launch.
  void NextOutput(const std::vector<float>& logits) {
    for (SamplerRow& row : host_.params) ++row.output_index;
    logits_.Upload(logits);
    params_.Upload(host_.params);
  }

  std::vector<Answer> Read() const {
    const std::vector<int32_t> token_ids = token_ids_.Download();
    const std::vector<SamplerError> errors = errors_.Download();
    const std::vector<SamplerLogprobs> logprobs = logprobs_.Download();
    const std::vector<TokenCount> entries = counts_.Download();
    const std::vector<int32_t> sizes = count_sizes_.Download();
    std::vector<Answer> answers;
    for (size_t i = 0; i < token_ids.size(); ++i) {
      answers.push_back({token_ids[i], errors[i], logprobs[i], {}});
      if (host_.params[i].counts_slot < 0) continue;
      const auto slot = static_cast<size_t>(host_.params[i].counts_slot);
      const TokenCount* entry = entries.data() + slot * static_cast<size_t>(capacity_);
      for (int32_t j = 0; j < sizes[slot]; ++j) {
        EXPECT_TRUE(answers[i].counts.emplace(entry[j].token_id, entry[j].output_count).second);
      }
    }
    return answers;
  }

 private:
  HostBatch host_;
  const int capacity_, rows_, vocab_size_;
  DeviceArray<float> logits_;
  DeviceArray<SamplerRow> params_;
  const DeviceArray<LogitBias> biases_;
  const DeviceArray<int32_t> stop_ids_, end_ids_;
  const DeviceArray<uint32_t> masks_;
  const DeviceArray<TokenCount> counts_;
  const DeviceArray<int32_t> count_sizes_;
  const DeviceArray<uint8_t> scratch_;
  const DeviceArray<int32_t> token_ids_;
  const DeviceArray<SamplerError> errors_;
  const DeviceArray<SamplerLogprobs> logprobs_;  // unchanged for rows that ask for none
  SamplerBatch batch_;
};

inline std::vector<Answer> Ask(const std::vector<Question>& questions,
                               const std::vector<int32_t>& end_ids, const SamplerShape& shape) {
  const DeviceBatch batch(questions, end_ids, /*counts_capacity=*/81);
  batch.Launch(shape);
  return batch.Read();
}

// Makes random questions.
class Questions {
 public:
  explicit Questions(uint32_t seed) : random_(seed), normals_(1 << 13) {
    std::normal_distribution<float> normal(0, 1);
    for (float& value : normals_) value = normal(random_);
  }

  uint32_t Random() { return static_cast<uint32_t>(random_()); }
  bool OneIn(uint32_t n) { return Random() % n == 0; }
  float Uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(Random() >> 8) * 0x1p-24f;
  }
  int32_t Token(int vocab_size) {
    return static_cast<int32_t>(Random() % static_cast<uint32_t>(vocab_size));
  }

  Question Next(int vocab_size) {
    Question question;
    question.logits = Logits(vocab_size);
    question.params = Params(vocab_size);
    question.prompt.resize(Random() % 40);
    question.output.resize(Random() % 40);
    for (int32_t& token : question.prompt) token = Token(vocab_size);
    for (int32_t& token : question.output) token = Token(vocab_size);
    question.choice = static_cast<int>(Random() % 3);
    if (OneIn(3)) question.mask = Mask(vocab_size);
    return question;
  }

  // Few tokens, many or none.
  std::vector<uint32_t> Mask(int vocab_size) {
    std::vector<uint32_t> mask(MaskWords(vocab_size));
    if (OneIn(2)) std::fill(mask.begin(), mask.end(), ~uint32_t{0});
    for (auto i = Random() % 40; i > 0; --i) {
      const auto token = static_cast<uint32_t>(Token(vocab_size));
      mask[token / 32] ^= uint32_t{1} << (token % 32);
    }
    return mask;
  }

  std::vector<float> Logits(int vocab_size) {
    std::vector<float> logits(static_cast<size_t>(vocab_size));
    const auto start = Random();
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = normals_[(start + i) % normals_.size()];
    const auto scale = [&](float factor) {
      for (float& logit : logits) logit *= factor;
    };
    switch (Random() % 10) {
      case 0:  // flat
        std::fill(logits.begin(), logits.end(), Uniform(-3, 3));
        break;
      case 1:  // many ties
        for (float& logit : logits) logit = std::round(logit);
        break;
      case 2:  // zeros of both signs, and next to them
        for (float& logit : logits) logit = logit < -0.5f ? -0.0f : logit < 0.5f ? 0.0f : 1e-45f;
        break;
      case 3:  // peaked
        logits[static_cast<size_t>(Token(vocab_size))] = Uniform(10, 100);
        break;
      case 4:
        scale(1e38f);
        for (float& logit : logits) logit = std::clamp(logit, -3.4e38f, 3.4e38f);
        break;
      case 5:
        scale(1e-38f);
        break;
      case 6:
        if (OneIn(4)) Spoil(logits);
        break;
      default:
        scale(Uniform(0.1f, 12));
    }
    return logits;
  }

 private:
  void Spoil(std::vector<float>& logits) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float bad[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                         -std::numeric_limits<float>::quiet_NaN()};
    logits[Random() % logits.size()] = bad[Random() % 4];
  }

  SamplingParams Params(int vocab_size) {
    SamplingParams params = {};
    params.seed = uint64_t{Random()} << 32 | Random();
    if (OneIn(2)) params.temperature = OneIn(4) ? 0 : Uniform(0.2f, 2);
    if (OneIn(16)) params.temperature = OneIn(2) ? 1e-4f : 1e30f;
    if (OneIn(2)) params.top_p = OneIn(4) ? 1 - 0x1p-24f : Uniform(0.001f, 1);
    if (OneIn(32)) params.top_p = 1e-30f;
    if (OneIn(2)) params.top_k = 1 + Token(OneIn(2) ? 60 : vocab_size + 10);
    if (OneIn(2)) params.min_p = OneIn(8) ? 1 : Uniform(0, 0.5f) * Uniform(0, 1);
    if (OneIn(4)) params.presence_penalty = Uniform(-2, 2);
    if (OneIn(4)) params.frequency_penalty = Uniform(-2, 2);
    if (OneIn(4)) params.repetition_penalty = OneIn(8) ? 3e38f : Uniform(0.5f, 2);
    if (OneIn(2)) params.min_tokens = static_cast<int>(Random() % 80);
    if (OneIn(5)) params.logprobs = OneIn(2) ? 0 : static_cast<int>(Random() % 21);
    for (auto i = Random() % 4; i > 0; --i) params.stop_token_ids.push_back(Token(vocab_size));
    std::sort(params.stop_token_ids.begin(), params.stop_token_ids.end());
    for (auto i = OneIn(2) ? 0 : Random() % 20; i > 0; --i) {
      params.logit_bias[Token(vocab_size)] = Uniform(-100, 100);
    }
    return params;
  }

  std::mt19937 random_;
  std::vector<float> normals_;
};

}  // namespace baton
