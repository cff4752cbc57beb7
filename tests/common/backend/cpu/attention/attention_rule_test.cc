// Attention with a window, sinks and scales of any size (AttentionRule).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/backend/cpu/attention/attention.h"
#include "tests/common/backend/cpu/attention/attention_fixture.h"
#include "tests/common/backend/cpu/attention/attention_reference.h"
#include "tests/support/instruction_sets.h"

namespace baton {
namespace {

bool HasBits(const float* out, const std::vector<float>& expected) {
  return std::memcmp(out, expected.data(), expected.size() * sizeof(float)) == 0;
}

// A shape and a rule chosen by a seed; sinks about as large as the greatest scores.
struct RandomCase {
  AttentionShape shape;
  std::vector<float> sinks;  // [heads]
  AttentionRule rule;

  RandomCase(int window, unsigned seed) {
    std::mt19937 random(seed);
    const KvType types[] = {KvType::kF32,  KvType::kF16, KvType::kBf16,
                            KvType::kInt8, KvType::kFp8, KvType::kInt4};
    const auto choose = [&random](int n) {
      return static_cast<int>(random() % static_cast<unsigned>(n));
    };
    const int kv_heads = 1 + choose(2);
    const int block_sizes[] = {16, 32, 48};
    shape = {.head_dim = 32 * (1 + choose(2)),
             .heads = kv_heads * (1 + choose(4)),
             .kv_heads = kv_heads,
             .block_size = block_sizes[choose(3)],
             .dtype = types[seed % 6],
             .tokens = 515 + choose(20)};
    std::normal_distribution<float> normal(0, 4);
    for (int head = 0; head < shape.heads; ++head) sinks.push_back(normal(random));
    rule = {.scale = 0.05f + 0.01f * static_cast<float>(choose(20)),
            .window = window,
            .sinks = seed % 3 == 0 ? nullptr : sinks.data()};
  }
  RandomCase(const RandomCase&) = delete;
  RandomCase& operator=(const RandomCase&) = delete;
};

class AttentionWindows : public testing::TestWithParam<int> {
 protected:
  // Another one for each window, so that all windows together see many shapes and all types.
  static unsigned FirstSeed() { return 2 * static_cast<unsigned>(GetParam()) % 97; }
};

TEST_P(AttentionWindows, SeeTheDefinitionsKeysBitForBitOnEveryInstructionSet) {
  const int window = GetParam();
  for (unsigned seed = FirstSeed(); seed < FirstSeed() + 2; ++seed) {
    const RandomCase c(window, seed);
    const AttentionShape& shape = c.shape;
    std::vector<AttentionSequence> sequences = {AttentionSequence(shape, 1)};
    std::vector<float> first;
    for (const CpuIsa isa : InstructionSets()) {
      AttentionRunner runner(shape, sequences, isa, /*threads=*/2, c.rule);
      runner.Pass({{0, 0, shape.tokens}});
      if (first.empty()) first = runner.out(0);
      ASSERT_TRUE(SameBits(runner.out(0), first)) << CpuIsaName(isa) << ", seed " << seed;
      if (isa != CpuIsa::kPortable) continue;  // the others are equal to it
      const int edge = std::min(window, shape.tokens);
      for (const int token : {0, 1, 15, 16, 17, edge - 2, edge - 1, edge, edge + 15, 254, 255, 256,
                              257, 300, 511, 512, shape.tokens - 1}) {
        if (token < 0 || token >= shape.tokens) continue;
        for (int head = 0; head < shape.heads; ++head) {
          const std::vector<float> expected = Contexts(shape, sequences[0], token, head, c.rule);
          ASSERT_TRUE(HasBits(runner.Out(0, token, head), expected))
              << "seed " << seed << ", token " << token << ", head " << head;
          const std::vector<double> exact = ExactContexts(shape, sequences[0], token, head, c.rule);
          for (size_t d = 0; d < exact.size(); ++d) ASSERT_NEAR(expected[d], exact[d], 2e-5);
        }
      }
    }
  }
}

// The passes have chunks of any size and single rows, which go through different kernels. What no
// later row sees is given back: NaN is there, or no block.
TEST_P(AttentionWindows, GiveARowTheSameBitsInAnyChunk) {
  const int window = GetParam();
  const std::vector<CpuIsa> sets = InstructionSets();
  for (unsigned seed = FirstSeed(); seed < FirstSeed() + 2; ++seed) {
    const RandomCase c(window, seed + 100);
    const AttentionShape& shape = c.shape;
    std::vector<AttentionSequence> sequences = {AttentionSequence(shape, 1)};
    AttentionRunner whole(shape, sequences, sets.back(), 1, c.rule);
    whole.Pass({{0, 0, shape.tokens}});
    std::mt19937 random(seed);
    for (const CpuIsa isa : sets) {
      AttentionRunner runner(shape, sequences, isa, 1 + static_cast<int>(seed % 3), c.rule);
      for (int done = 0; done < shape.tokens;) {
        const int sizes[] = {1, 1, 1, 2, 7, 30, 150};
        const int count = std::min(sizes[random() % 7], shape.tokens - done);
        runner.GiveBackBefore(0, c.rule.FirstKey(done));
        runner.Pass({{0, done, count}});
        done += count;
      }
      EXPECT_TRUE(SameBits(runner.out(0), whole.out(0))) << CpuIsaName(isa) << ", seed " << seed;
    }
  }
}

TEST_P(AttentionWindows, GiveDecodeStepsTheBitsOfPrefill) {
  const int window = GetParam();
  const RandomCase c(window, FirstSeed());
  std::vector<AttentionSequence> sequences = {AttentionSequence(c.shape, 1)};
  for (const CpuIsa isa : InstructionSets()) {
    AttentionRunner prefill(c.shape, sequences, isa, 2, c.rule);
    prefill.Pass({{0, 0, c.shape.tokens}});
    AttentionRunner decode(c.shape, sequences, isa, 2, c.rule);
    for (int token = 0; token < c.shape.tokens; ++token) {
      decode.GiveBackBefore(0, c.rule.FirstKey(token));
      decode.Pass({{0, token, 1}});
    }
    EXPECT_TRUE(SameBits(decode.out(0), prefill.out(0))) << CpuIsaName(isa);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionWindows,
                         testing::Values(1, 2, 32, 255, 256, 257, 300,
                                         std::numeric_limits<int>::max()),
                         testing::PrintToStringParamName());

// The cache holds NaN if nothing was appended: in the blocks before token 300.
TEST(AttentionRules, KeysBeforeTheWindowChangeNothing) {
  constexpr int kFirst = 300;
  for (const int window : {1, 16, 33, 200}) {
    for (unsigned seed = 0; seed < 6; seed += 2) {
      const RandomCase c(window, seed + static_cast<unsigned>(window) % 2);
      std::vector<AttentionSequence> sequences = {AttentionSequence(c.shape, 1)};
      for (const CpuIsa isa : InstructionSets()) {
        AttentionRunner whole(c.shape, sequences, isa, 1, c.rule);
        whole.Pass({{0, 0, c.shape.tokens}});
        AttentionRunner late(c.shape, sequences, isa, 1, c.rule);
        late.GiveBackBefore(0, c.rule.FirstKey(kFirst));
        late.Pass({{0, kFirst, 211}});
        for (int token = kFirst + 211; token < c.shape.tokens; ++token) late.Pass({{0, token, 1}});
        const int row = c.shape.heads * c.shape.head_dim;
        const int from = (kFirst + window - 1) * row;
        EXPECT_TRUE(
            std::equal(whole.out(0).begin() + from, whole.out(0).end(), late.out(0).begin() + from))
            << CpuIsaName(isa) << ", window " << window << ", seed " << seed;
      }
    }
  }
}

// All scores are 0, so each key and a sink of 0 weigh the same.
TEST(AttentionRules, ASinkTakesItsShareOfTheSoftmaxAndGivesNoValue) {
  const AttentionShape shape = {16, /*heads=*/3, /*kv_heads=*/1, 16, KvType::kF32, /*tokens=*/4};
  const float sinks[] = {0, 1e30f, -1e30f};
  std::vector<AttentionSequence> sequences = {AttentionSequence(shape, 1)};
  const float values[] = {10, 20, 1, 5};
  for (int token = 0; token < shape.tokens; ++token) {
    std::fill_n(sequences[0].Query(token, 0), 3 * 16, 0.0f);
    std::fill_n(sequences[0].Value(token, 0), 16, values[token]);
  }
  const float expected[4][3] = {{5, 0, 10}, {10, 0, 15}, {7, 0, 10.5}, {2, 0, 3}};
  for (const CpuIsa isa : InstructionSets()) {
    AttentionRunner runner(shape, sequences, isa, 1, {.scale = 1, .window = 2, .sinks = sinks});
    runner.Pass({{0, 0, 4}});
    for (int token = 0; token < shape.tokens; ++token) {
      for (int head = 0; head < shape.heads; ++head) {
        EXPECT_NEAR(*runner.Out(0, token, head), expected[token][head], 1e-5)
            << CpuIsaName(isa) << ", token " << token << ", head " << head;
      }
    }
  }
}

TEST(AttentionRules, ASinkMayBeOfAnySize) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const std::vector<float> sinks = {
      kMost, -kMost, -std::numeric_limits<float>::infinity(), 100, -80, 0, 1e-30f, 20};
  const AttentionShape shape = {32, 8, 2, 32, KvType::kF16, 520};
  std::vector<AttentionSequence> sequences = {AttentionSequence(shape, 1)};
  const AttentionRule rule = {.scale = 0.3f, .window = 0, .sinks = sinks.data()};
  for (const CpuIsa isa : InstructionSets()) {
    AttentionRunner plain(shape, sequences, isa, 1, {.scale = 0.3f});
    plain.Pass({{0, 0, shape.tokens}});
    AttentionRunner runner(shape, sequences, isa, 1, rule);
    runner.Pass({{0, 0, 300}});
    for (int token = 300; token < shape.tokens; ++token) runner.Pass({{0, token, 1}});
    for (int token = 0; token < shape.tokens; token += 37) {
      for (int head = 0; head < shape.heads; ++head) {
        const float* out = runner.Out(0, token, head);
        const std::vector<float> expected = Contexts(shape, sequences[0], token, head, rule);
        ASSERT_TRUE(HasBits(out, expected))
            << CpuIsaName(isa) << ", token " << token << ", head " << head;
        const std::vector<double> exact = ExactContexts(shape, sequences[0], token, head, rule);
        for (size_t d = 0; d < exact.size(); ++d) ASSERT_NEAR(out[d], exact[d], 2e-5);
      }
      // A sink that weighs nothing changes no bit.
      for (const int head : {1, 2}) {
        const float* without = plain.Out(0, token, head);
        EXPECT_TRUE(HasBits(runner.Out(0, token, head), {without, without + shape.head_dim}));
      }
    }
  }
}

}  // namespace
}  // namespace baton
