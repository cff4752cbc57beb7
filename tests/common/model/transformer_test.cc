// The numerics contract: a token's K, V and logits depend on its sequence alone, bit for bit.
#include "common/model/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/backend/cpu/isa.h"
#include "tests/support/model_runner.h"

namespace baton {
namespace {

constexpr int kTokens = 300;  // more than a segment of attention

struct Model {
  std::string file;
  KvDtype kv_dtype;
};

// One computation of a sequence, reduced to its bytes.
struct Outcome {
  std::vector<float> logits;  // [tokens, vocab_size]
  std::vector<uint8_t> kv;
};

// Compared as bytes: equal floats are not enough.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<int32_t> RandomTokens(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random() % 320));
  return tokens;
}

class Exactness : public testing::TestWithParam<Model> {
 protected:
  ModelRunnerOptions Options() const {
    return {.path = std::string(BATON_TEST_DATA "/tiny/") + GetParam().file + ".gguf",
            .backend = {.device = "cpu", .threads = 1},
            .kv_dtype = GetParam().kv_dtype,
            .max_tokens = 1200};
  }

  // `tokens` appended in pieces whose sizes `next_size` gives.
  template <class NextSize>
  static Outcome Compute(ModelRunner& runner, const std::vector<int32_t>& tokens,
                         NextSize next_size) {
    Outcome outcome;
    const int sequence = runner.AddSequence();
    for (size_t first = 0; first < tokens.size();) {
      const size_t size = std::min<size_t>(next_size(), tokens.size() - first);
      const std::vector<float> logits =
          runner.Forward({{sequence, {tokens.begin() + first, tokens.begin() + first + size}}});
      outcome.logits.insert(outcome.logits.end(), logits.begin(), logits.end());
      first += size;
    }
    outcome.kv = runner.KvBytes(sequence);
    return outcome;
  }
  static Outcome AtOnce(const ModelRunnerOptions& options) {
    ModelRunner runner(options);
    return Compute(runner, RandomTokens(kTokens, 1), [] { return kTokens; });
  }
  void ExpectSame(const Outcome& outcome) const {
    const Outcome expected = AtOnce(Options());
    EXPECT_TRUE(SameBits(outcome.logits, expected.logits));
    EXPECT_EQ(outcome.kv, expected.kv);
  }
};

TEST_P(Exactness, DecodeStepsAreOnePrefill) {
  ModelRunner runner(Options());
  ExpectSame(Compute(runner, RandomTokens(kTokens, 1), [] { return 1; }));
}

TEST_P(Exactness, AnyChunkingIsOnePrefill) {
  std::mt19937 random(2);
  for (int round = 0; round < 4; ++round) {
    ModelRunner runner(Options());
    ExpectSame(Compute(runner, RandomTokens(kTokens, 1), [&] { return 1 + random() % 90; }));
  }
}

TEST_P(Exactness, BlockSizeChangesNothing) {
  for (const int block_size : {16, 64, 48}) {
    ModelRunnerOptions options = Options();
    options.block_size = block_size;
    ExpectSame(AtOnce(options));
  }
}

TEST_P(Exactness, ThreadCountChangesNothing) {
  for (const int threads : {2, 3, 4}) {
    ModelRunnerOptions options = Options();
    options.backend.threads = threads;
    ExpectSame(AtOnce(options));
  }
}

TEST_P(Exactness, InstructionSetChangesNothing) {
  for (const CpuIsa isa : kAllCpuIsas) {
    if (!CpuHas(isa)) continue;
    SCOPED_TRACE(CpuIsaName(isa));
    ModelRunnerOptions options = Options();
    options.backend.cpu_isa = CpuIsaName(isa);
    ExpectSame(AtOnce(options));
  }
}

TEST_P(Exactness, BatchMatesChangeNothing) {
  std::mt19937 random(3);
  ModelRunner runner(Options());
  const std::vector<int32_t> tokens = RandomTokens(kTokens, 1);
  const std::vector<int32_t> other_tokens = RandomTokens(kTokens, 4);
  const int sequence = runner.AddSequence();
  const std::vector<int> others = {runner.AddSequence(), runner.AddSequence()};
  const size_t vocab = static_cast<size_t>(runner.vocab_size());
  Outcome outcome;
  while (runner.length(sequence) < kTokens) {
    std::vector<ModelRunner::Rows> rows;
    const auto add = [&](int which, const std::vector<int32_t>& from) {
      const int first = runner.length(which);
      const int size = std::min(1 + static_cast<int>(random() % 60), kTokens - first);
      if (size > 0) {
        rows.push_back({which, {from.begin() + first, from.begin() + first + size}});
      }
    };
    // Now before it, now behind it.
    const size_t mate = random() % 2;
    add(others[mate], other_tokens);
    const size_t before = rows.empty() ? 0 : rows[0].tokens.size();
    add(sequence, tokens);
    const size_t own = rows.back().tokens.size();
    add(others[1 - mate], other_tokens);
    const std::vector<float> logits = runner.Forward(rows);
    const auto begin = logits.begin() + static_cast<int64_t>(before * vocab);
    outcome.logits.insert(outcome.logits.end(), begin, begin + static_cast<int64_t>(own * vocab));
  }
  outcome.kv = runner.KvBytes(sequence);
  ExpectSame(outcome);
}

INSTANTIATE_TEST_SUITE_P(Tiny, Exactness,
                         testing::Values(Model{"tiny-llama-f32", KvDtype::kF32},
                                         Model{"tiny-llama-f16", KvDtype::kF16},
                                         Model{"tiny-llama-bf16", KvDtype::kBf16},
                                         Model{"tiny-llama-q8_0", KvDtype::kF16},
                                         Model{"tiny-llama-q4_0", KvDtype::kF16},
                                         Model{"tiny-llama-q4_1", KvDtype::kF16},
                                         Model{"tiny-qwen2-bias", KvDtype::kF16},
                                         Model{"tiny-mqa-linear-rope", KvDtype::kF32}),
                         [](const testing::TestParamInfo<Model>& model) {
                           std::string name = model.param.file;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Transformer, CallsOnLayerOnceForEachLayerInOrderWhenItsKvIsInTheCache) {
  ModelRunner runner({.path = BATON_TEST_DATA "/tiny/tiny-llama-f32.gguf"});
  const KvLayout& layout = runner.cache().layout();
  const std::vector<int32_t> table = {2};
  const Batch batch{.token_ids = {5, 6, 7}, .sequences = {{0, 3, 0, table}}, .logits_rows = {}};
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
  const std::vector<int32_t> tokens = RandomTokens(200, 5);
  const std::vector<float> all = runner.Forward({{runner.AddSequence(), tokens}});
  const size_t vocab = static_cast<size_t>(runner.vocab_size());
  std::vector<int32_t> table(static_cast<size_t>(runner.cache().layout().BlocksFor(200)));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  const Batch batch{
      .token_ids = tokens, .sequences = {{0, 200, 0, table}}, .logits_rows = {0, 3, 64, 130, 199}};
  std::vector<float> some(batch.logits_rows.size() * vocab);
  runner.transformer().Forward(
      batch, runner.cache(), [](int) {}, absl::MakeSpan(some));
  for (size_t i = 0; i < batch.logits_rows.size(); ++i) {
    const size_t row = static_cast<size_t>(batch.logits_rows[i]);
    EXPECT_EQ(std::memcmp(&some[i * vocab], &all[row * vocab], vocab * sizeof(float)), 0) << row;
  }
}

TEST(Transformer, CachedDecodingOfSmolLm2EqualsRecomputationFor64Steps) {
  if (TestModelPath().empty()) GTEST_SKIP() << "set BATON_TEST_MODEL to SmolLM2's GGUF file";
  ModelRunner runner({.path = TestModelPath(), .max_tokens = 8192});
  const int cached = runner.AddSequence();
  std::vector<int32_t> tokens = {1, 9690, 198, 2683, 359, 253, 5356};
  std::vector<float> logits = runner.Append(cached, tokens);
  for (int step = 0; step < 64; ++step) {
    const std::vector<float> recomputed = runner.Append(runner.AddSequence(), tokens);
    ASSERT_TRUE(SameBits(logits, recomputed)) << "step " << step;
    tokens.push_back(ArgMax(logits.data(), runner.vocab_size()));
    logits = runner.Append(cached, {tokens.back()});
  }
}

}  // namespace
}  // namespace baton
