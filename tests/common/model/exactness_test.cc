// The numerics contract on tiny models of every weight type with extreme values: a token's K, V and
// logits depend on its sequence alone, bit for bit.
#include "tests/support/exactness.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/kv_type_name.h"
#include "tests/support/ggml_blocks.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/tiny_model.h"

namespace baton {
namespace {

constexpr int kTokens = 36;  // chunks of 1, 2, ... 8

struct Model {
  TinyModelOptions options;
  KvType kv_dtype;
};

std::string DescribeModel(const Model& model) {
  std::vector<std::string> types;
  for (const GgmlType type : model.options.types) types.push_back(GgmlTypeName(type));
  return absl::StrCat(TinyContentsName(model.options.contents), " ", absl::StrJoin(types, "+"),
                      model.options.qwen2 ? " qwen2" : " llama", ", KV ",
                      KvTypeName(model.kv_dtype));
}

// The types of a model's matrices in turn: one type, or what mixed files have.
class Exactness : public testing::TestWithParam<std::vector<GgmlType>> {
 protected:
  static std::vector<Model> Models() {
    std::vector<Model> models;
    models.push_back({{GetParam(), TinyContents::kExtreme, 1, false}, KvType::kF16});
    models.push_back({{GetParam(), TinyContents::kExtreme, 2, true}, KvType::kBf16});
    models.push_back({{GetParam(), TinyContents::kHuge, 3, false}, KvType::kF32});
    models.push_back({{GetParam(), TinyContents::kExtreme, 4, true}, KvType::kInt8});
    models.push_back({{GetParam(), TinyContents::kHuge, 5, false}, KvType::kFp8});
    models.push_back({{GetParam(), TinyContents::kExtreme, 6, true, 64}, KvType::kInt4});
    return models;
  }
  static ModelRunnerOptions OptionsFor(const GgufFile& file, const Model& model) {
    ModelRunnerOptions options;
    options.file = &file;
    options.kv_dtype = model.kv_dtype;
    options.max_tokens = 2000;
    return options;
  }
  // Tokens [first, end) of the sequence that all tests compute.
  static std::vector<int32_t> Tokens(int first = 0, int end = kTokens) {
    const std::vector<int32_t> all = RandomTokens(kTokens, kTinyVocabSize, 4);
    return {all.begin() + first, all.begin() + end};
  }
  // What all others must equal.
  static Outcome Expected(const ModelRunnerOptions& options) {
    ModelRunner runner(With(options, Way{}));
    return Compute(runner, runner.AddSequence(), Tokens(), Schedule::kAtOnce);
  }
};

// The full product, and on the other models a pairwise sample of it.
TEST_P(Exactness, EveryWayToComputeGivesTheSameBits) {
  std::vector<Way> ways = AllWays();
  for (const Model& model : Models()) {
    SCOPED_TRACE(DescribeModel(model));
    const GgufFile file = MakeTinyModel(model.options);
    ASSERT_TRUE(LoadStatus(file).ok()) << LoadStatus(file);
    const ModelRunnerOptions options = OptionsFor(file, model);
    const Outcome expected = Expected(options);
    ASSERT_TRUE(AllFinite(expected));
    ASSERT_GT(Distinct(expected), kTokens * kTinyVocabSize / 10);  // the extremes left something
    std::unique_ptr<ModelRunner> runner;
    Way previous;
    int failures = 0;
    for (const Way& way : ways) {
      if (runner == nullptr || !SameRunner(way, previous)) {
        runner = std::make_unique<ModelRunner>(With(options, way));
      }
      previous = way;
      const int sequence = runner->AddSequence();
      const std::string difference = FirstDifference(
          expected, Compute(*runner, sequence, Tokens(), way.schedule), kTinyVocabSize);
      runner->Release(sequence);
      EXPECT_EQ(difference, "") << Describe(way);
      if (!difference.empty() && ++failures == 5) break;
    }
    ways = PairwiseWays();
  }
}

// What a prefix hit does: the blocks hold what another sequence computed, cut otherwise.
TEST_P(Exactness, APrefixThatAnotherSequenceComputedServesAsWell) {
  const Model model = Models()[0];
  const GgufFile file = MakeTinyModel(model.options);
  ASSERT_TRUE(LoadStatus(file).ok()) << LoadStatus(file);
  const ModelRunnerOptions options = OptionsFor(file, model);
  const Outcome expected = Expected(options);
  for (const CpuIsa isa : InstructionSets()) {
    ModelRunner runner(With(options, {.isa = isa, .threads = 2, .block_size = 16}));
    for (size_t i = 0; i < std::size(kSchedules); ++i) {
      const Schedule before = kSchedules[i];
      const Schedule after = kSchedules[(i + 1) % std::size(kSchedules)];
      const int first = runner.AddSequence();
      const Outcome prefix = Compute(runner, first, Tokens(0, 35), before).Head(32, kTinyVocabSize);
      const int second = runner.AddSequenceSharing(first, 32);
      const Outcome outcome = prefix.Then(Compute(runner, second, Tokens(32, kTokens), after));
      ASSERT_EQ(FirstDifference(expected, outcome, kTinyVocabSize), "")
          << Describe(Way{isa, 2, 16, before}) << ", then " << Describe(Way{isa, 2, 16, after});
    }
  }
}

// What a preemption does: the blocks go to others, and the tokens are computed again in others.
TEST_P(Exactness, RecomputingAfterItsBlocksWereGivenAwayChangesNothing) {
  const Model model = Models()[0];
  const GgufFile file = MakeTinyModel(model.options);
  ASSERT_TRUE(LoadStatus(file).ok()) << LoadStatus(file);
  const ModelRunnerOptions options = OptionsFor(file, model);
  const Outcome expected = Expected(options);
  ModelRunner runner(With(options, {.isa = InstructionSets().back(), .threads = 1}));
  for (int step = 1; step < kTokens; ++step) {
    const int sequence = runner.AddSequence();
    Compute(runner, sequence, Tokens(0, step), Schedule::kOneByOne);
    runner.Release(sequence);
    const int other = runner.AddSequence();
    runner.Append(other, RandomTokens(17, kTinyVocabSize, static_cast<uint32_t>(step)));
    const Outcome again = Compute(runner, sequence, Tokens(0, step), Schedule::kAtOnce);
    const Outcome outcome =
        again.Then(Compute(runner, sequence, Tokens(step, kTokens), Schedule::kWithMates));
    ASSERT_EQ(FirstDifference(expected, outcome, kTinyVocabSize), "")
        << "preempted after " << step << " tokens";
    runner.Release(sequence);
    runner.Release(other);
  }
}

TEST_P(Exactness, OneInstructionSetContinuesWhatAnotherBegan) {
  constexpr int kPrompt = 29;
  for (const Model& model : Models()) {
    SCOPED_TRACE(DescribeModel(model));
    const GgufFile file = MakeTinyModel(model.options);
    ASSERT_TRUE(LoadStatus(file).ok()) << LoadStatus(file);
    const ModelRunnerOptions options = OptionsFor(file, model);
    const Outcome expected = Expected(options);
    for (const CpuIsa prefill_isa : InstructionSets()) {
      ModelRunner prefill(With(options, {.isa = prefill_isa, .threads = 2, .block_size = 64}));
      const Outcome prompt =
          Compute(prefill, prefill.AddSequence(), Tokens(0, kPrompt), Schedule::kAtOnce);
      for (const CpuIsa decode_isa : InstructionSets()) {
        ModelRunner decode(With(options, {.isa = decode_isa, .threads = 1, .block_size = 16}));
        const int sequence = decode.AddSequenceWithKv(prompt.kv, kPrompt);
        const Outcome outcome =
            prompt.Then(Compute(decode, sequence, Tokens(kPrompt, kTokens), Schedule::kOneByOne));
        EXPECT_EQ(FirstDifference(expected, outcome, kTinyVocabSize), "")
            << CpuIsaName(prefill_isa) << ", continued by " << CpuIsaName(decode_isa);
      }
    }
  }
}

std::vector<std::vector<GgmlType>> TypesOfModels() {
  std::vector<std::vector<GgmlType>> all;
  for (const GgmlType type : kWeightTypes) all.push_back({type});
  // Products that share an input take it in the form that each one's type asks for.
  all.push_back(
      {GgmlType::kQ8_0, GgmlType::kQ4_1, GgmlType::kF16, GgmlType::kQ4_0, GgmlType::kF32});
  all.push_back({GgmlType::kQ6_K, GgmlType::kQ4_K, GgmlType::kQ5_0, GgmlType::kQ5_K,
                 GgmlType::kBf16, GgmlType::kQ5_1, GgmlType::kQ8_0});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Tiny, Exactness, testing::ValuesIn(TypesOfModels()),
                         [](const testing::TestParamInfo<std::vector<GgmlType>>& types) {
                           if (types.param.size() > 1) return absl::StrCat("Mixed", types.index);
                           return GgmlTypeName(types.param[0]);
                         });

TEST(PairwiseWays, IsAFewOfAllWays) { EXPECT_LE(PairwiseWays().size() * 5, AllWays().size()); }

}  // namespace
}  // namespace baton
