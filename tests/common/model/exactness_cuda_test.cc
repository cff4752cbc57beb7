// The numerics contract on the CUDA backend with --deterministic, on tiny models: a token's K, V
// and logits depend on its sequence alone, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/support/exactness.h"
#include "tests/support/tiny_model.h"

namespace baton {
namespace {

constexpr int kTokens = 22;  // chunks of 1, 2, ... 6

struct Model {
  std::string name;
  TinyModelOptions options;
  KvType kv_dtype;
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

// Weights of all types, caches of all types, attention with tensor cores and without.
std::vector<Model> Models() {
  using enum GgmlType;
  const auto tame = TinyContents::kTame;
  return {{"Bf16", {{kBf16}, tame, 1, false, 64}, KvType::kBf16},
          {"F16Qwen2", {{kF16}, tame, 2, true, 80}, KvType::kF16},
          {"F32", {{kF32}, TinyContents::kExtreme, 3, false}, KvType::kF32},
          {"Q4_1", {{kQ4_1, kQ8_0, kQ4_0}, TinyContents::kExtreme, 4, false, 64}, KvType::kF16},
          {"Q4_K", {{kQ4_K, kQ6_K}, tame, 5, true, 128}, KvType::kF16},
          {"KvInt8", {{kBf16}, TinyContents::kExtreme, 6, true, 64}, KvType::kInt8},
          {"KvFp8", {{kBf16}, tame, 7, false, 64}, KvType::kFp8},
          {"KvInt4", {{kBf16}, TinyContents::kExtreme, 8, true, 64}, KvType::kInt4}};
}

class DeterministicCuda : public testing::TestWithParam<Model> {
 protected:
  ModelRunner MakeRunner(int block_size, int max_tokens = 600) const {
    ModelRunnerOptions options = CpuOptions();
    options.backend = {.device = "cuda", .deterministic = true};
    options.block_size = block_size;
    options.max_tokens = max_tokens;
    return ModelRunner(options);
  }
  ModelRunnerOptions CpuOptions() const {
    ModelRunnerOptions options;
    options.file = &file_;
    options.kv_dtype = GetParam().kv_dtype;
    return options;
  }
  static std::vector<int32_t> Tokens(int count) { return RandomTokens(count, kTinyVocabSize, 4); }

  const GgufFile file_ = MakeTinyModel(GetParam().options);
};

using DeterministicCudaOfTameWeights = DeterministicCuda;

std::vector<Model> TameModels() {
  std::vector<Model> models = Models();
  std::erase_if(models, [](const Model& m) { return m.options.contents != TinyContents::kTame; });
  return models;
}

std::string ModelName(const testing::TestParamInfo<Model>& model) { return model.param.name; }

INSTANTIATE_TEST_SUITE_P(Tiny, DeterministicCuda, testing::ValuesIn(Models()), ModelName);
INSTANTIATE_TEST_SUITE_P(Tiny, DeterministicCudaOfTameWeights, testing::ValuesIn(TameModels()),
                         ModelName);

TEST_P(DeterministicCuda, GivesTheSameBitsInEveryScheduleAndBlockSize) {
  ModelRunner first = MakeRunner(32);
  const Outcome expected = Compute(first, first.AddSequence(), Tokens(kTokens), Schedule::kAtOnce);
  ASSERT_TRUE(AllFinite(expected));
  ASSERT_GT(Distinct(expected), kTokens * kTinyVocabSize / 10);
  for (const int block_size : {16, 32, 64}) {
    ModelRunner runner = MakeRunner(block_size);
    for (const Schedule schedule : kSchedules) {
      const int sequence = runner.AddSequence();
      const Outcome outcome = Compute(runner, sequence, Tokens(kTokens), schedule);
      runner.Release(sequence);
      ASSERT_EQ(FirstDifference(expected, outcome, kTinyVocabSize), "")
          << "blocks of " << block_size << ", schedule " << static_cast<int>(schedule);
    }
  }
}

// Over the borders of tiles of rows and segments of keys; and what a prefix hit and a hand-off do,
// whose first tokens another one computed.
TEST_P(DeterministicCuda, DecodesWhatAPrefillWouldHaveComputed) {
  constexpr int kLong = 270;
  constexpr int kPrompt = 250;
  const std::vector<int32_t> tokens = Tokens(kLong);
  ModelRunner runner = MakeRunner(32, 3 * kLong);
  const Outcome expected = Compute(runner, runner.AddSequence(), tokens, Schedule::kAtOnce);
  const int sequence = runner.AddSequence();
  runner.Append(sequence, {tokens.begin(), tokens.begin() + kPrompt});
  ModelRunner decode = MakeRunner(16, 2 * kLong);
  const int handed = decode.AddSequenceWithKv(runner.KvBytes(sequence), kPrompt);
  const Outcome outcome =
      Compute(decode, handed, {tokens.begin() + kPrompt, tokens.end()}, Schedule::kOneByOne);
  const auto tail = expected.logits.begin() + kPrompt * kTinyVocabSize;
  EXPECT_EQ(FirstDifference({{tail, expected.logits.end()}, expected.kv}, outcome, kTinyVocabSize),
            "");
}

// Logits as the CPU's, whose activations are rounded too where weights are quantised.
TEST_P(DeterministicCudaOfTameWeights, IsNearTheCpu) {
  ModelRunner cpu(CpuOptions());
  ModelRunner cuda = MakeRunner(32);
  const std::vector<float> expected = cpu.Append(cpu.AddSequence(), Tokens(kTokens));
  const std::vector<float> logits = cuda.Append(cuda.AddSequence(), Tokens(kTokens));
  double size = 0;
  double error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    size += expected[i] * expected[i];
    error += (logits[i] - expected[i]) * (logits[i] - expected[i]);
  }
  EXPECT_LE(std::sqrt(error / size), 0.03);
}

TEST(CudaNumerics, SayWhetherTheyAreDeterministicAndOnWhat) {
  const auto numerics = [](bool deterministic) {
    return (*MakeBackend({.device = "cuda", .deterministic = deterministic}))->Numerics();
  };
  EXPECT_EQ(numerics(false), "cuda-varying");
  EXPECT_EQ(numerics(true), "cuda-sm90-invariant3");
}

}  // namespace
}  // namespace baton
