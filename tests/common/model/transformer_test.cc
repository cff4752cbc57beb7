// The numerics contract: a token's K, V and logits depend on its sequence alone, bit for bit.
#include "common/model/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/exactness.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/model_runner.h"

namespace baton {
namespace {

constexpr int kTokens = 300;  // more than a segment of attention

struct Model {
  std::string file;
  KvType kv_dtype;
};

class LongSequences : public testing::TestWithParam<Model> {};

// exactness_test has all ways, on shorter sequences.
TEST_P(LongSequences, HaveTheSameBitsHoweverTheyAreComputed) {
  ModelRunnerOptions options;
  options.path = std::string(BATON_TEST_DATA "/tiny/") + GetParam().file + ".gguf";
  options.kv_dtype = GetParam().kv_dtype;
  options.max_tokens = 1200;
  const auto file = GgufFile::Open(options.path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(LoadStatus(*file).ok()) << LoadStatus(*file);
  const CpuIsa best = InstructionSets().back();
  std::vector<Way> ways = {{best, 4, 16, Schedule::kOneByOne},
                           {best, 3, 64, Schedule::kAscending},
                           {best, 2, 32, Schedule::kWithMates},
                           {best, 1, 48, Schedule::kPages}};
  for (const CpuIsa isa : InstructionSets()) ways.push_back({isa, 2, 16, Schedule::kAtOnce});
  const std::vector<int32_t> tokens = RandomTokens(kTokens, 320, 1);
  Outcome expected;
  for (const Way& way : ways) {
    ModelRunner runner(With(options, way));
    const Outcome outcome = Compute(runner, runner.AddSequence(), tokens, way.schedule);
    if (expected.logits.empty()) expected = outcome;
    EXPECT_EQ(FirstDifference(expected, outcome, 320), "") << Describe(way);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, LongSequences,
    testing::Values(Model{"tiny-llama-f32", KvType::kF32}, Model{"tiny-llama-f16", KvType::kF16},
                    Model{"tiny-llama-bf16", KvType::kBf16}, Model{"tiny-llama-q8_0", KvType::kF16},
                    Model{"tiny-llama-q4_0", KvType::kF16}, Model{"tiny-llama-q4_1", KvType::kF16},
                    Model{"tiny-wide-q5_0", KvType::kF16}, Model{"tiny-wide-q5_1", KvType::kBf16},
                    Model{"tiny-wide-q4_k", KvType::kF16}, Model{"tiny-wide-q5_k", KvType::kF16},
                    Model{"tiny-wide-q6_k", KvType::kF32}, Model{"tiny-qwen2-bias", KvType::kF16},
                    Model{"tiny-mqa-linear-rope", KvType::kF32},
                    Model{"tiny-llama-q8_0", KvType::kInt8},
                    Model{"tiny-qwen2-bias", KvType::kFp8}),
    [](const testing::TestParamInfo<Model>& model) {
      std::string name = model.param.file;
      std::replace(name.begin(), name.end(), '-', '_');
      return name + (IsQuantised(model.param.kv_dtype) ? "_quantised_kv" : "");
    });

TEST(Transformer, CallsOnLayerOnceForEachLayerInOrderWhenItsKvIsInTheCache) {
  ModelRunner runner({.path = BATON_TEST_DATA "/tiny/tiny-llama-f32.gguf"});
  const KvLayout& layout = runner.cache().layout();
  const std::vector<int32_t> table = {2};
  const Batch batch{.tokens = {InputToken::Id(5), InputToken::Id(6), InputToken::Id(7)},
                    .sequences = {{0, 3, 0, table.data(), 1}},
                    .logits_rows = {}};
  std::vector<int> layers;
  runner.transformer().Forward(
      batch, runner.cache(),
      [&](int layer) {
        layers.push_back(layer);
        for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
          const uint8_t* row = runner.cache().Block(2) + layout.RowOffset(layer, part, 2);
          EXPECT_TRUE(std::any_of(row, row + layout.row_bytes(), [](uint8_t b) { return b != 0; }));
        }
      },
      {});
  EXPECT_EQ(layers, (std::vector<int>{0, 1, 2}));
}

TEST(Transformer, ComputesTheLogitsOfTheRowsAskedFor) {
  const ModelRunnerOptions options{.path = BATON_TEST_DATA "/tiny/tiny-llama-q8_0.gguf"};
  ModelRunner runner(options);
  const std::vector<int32_t> tokens = RandomTokens(200, 320, 5);
  const std::vector<float> all = runner.Forward({{runner.AddSequence(), tokens}});
  const size_t vocab = static_cast<size_t>(runner.vocab_size());
  std::vector<int32_t> table(static_cast<size_t>(runner.cache().layout().BlocksFor(200)));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  Batch batch{.tokens = {},
              .sequences = {{0, 200, 0, table.data(), static_cast<int>(table.size())}},
              .logits_rows = {0, 3, 64, 130, 199}};
  for (const int32_t id : tokens) batch.tokens.push_back(InputToken::Id(id));
  std::vector<float> some(batch.logits_rows.size() * vocab);
  runner.transformer().Forward(
      batch, runner.cache(), [](int) {}, absl::MakeSpan(some));
  for (size_t i = 0; i < batch.logits_rows.size(); ++i) {
    const size_t row = static_cast<size_t>(batch.logits_rows[i]);
    EXPECT_EQ(std::memcmp(&some[i * vocab], &all[row * vocab], vocab * sizeof(float)), 0) << row;
  }
}

}  // namespace
}  // namespace baton
