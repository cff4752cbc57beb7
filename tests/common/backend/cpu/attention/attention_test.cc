#include "common/backend/cpu/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/common/backend/cpu/attention/attention_fixture.h"
#include "tests/common/backend/cpu/attention/attention_reference.h"
#include "tests/support/instruction_sets.h"

namespace baton {
namespace {

// Four tokens with values 10, 20, 1, 5. Heads average over the tokens at even positions (from 1),
// the last token, the first token, all tokens, up to and including the current one. A softmax
// always averages over something: the "none" of the first token is a sink before it, which holds
// zero and which the first head prefers to tokens at odd positions.
TEST(Attention, GivesTheContextsOfTheWorkedExample) {
  constexpr float kStrong = 400;  // a score 100 above the others: they weigh nothing
  const std::vector<float> values = {0, 10, 20, 1, 5};  // the sink's first
  const AttentionShape shape = {16, /*heads=*/4, /*kv_heads=*/1, 16, KvType::kF32, /*tokens=*/5};
  std::vector<AttentionSequence> sequences = {AttentionSequence(shape, 1)};
  AttentionSequence& sequence = sequences[0];
  for (int token = 0; token < 5; ++token) {
    const bool sink = token == 0;
    // A key says: even position, order, the sink itself.
    std::fill_n(sequence.Key(token, 0), 16, 0.0f);
    sequence.Key(token, 0)[0] = sink ? 0.0f : token % 2 == 0 ? 1.0f : -1.0f;
    sequence.Key(token, 0)[1] = static_cast<float>(token);
    sequence.Key(token, 0)[2] = sink ? 1.0f : 0.0f;
    std::fill_n(sequence.Value(token, 0), 16, values[static_cast<size_t>(token)]);
    std::fill_n(sequence.Query(token, 0), 4 * 16, 0.0f);
    sequence.Query(token, 0)[0] = kStrong;
    sequence.Query(token, 1)[1] = kStrong;
    sequence.Query(token, 2)[1] = -kStrong;
    for (const int head : {2, 3}) sequence.Query(token, head)[2] = -100 * kStrong;
  }
  const float expected[4][4] = {
      {/*none*/ 0, 10, 10, 10}, {20, 20, 10, 15}, {20, 1, 10, 31.0f / 3}, {12.5, 5, 10, 9}};
  for (const CpuIsa isa : InstructionSets()) {
    AttentionRunner runner(shape, sequences, isa, /*threads=*/2);
    runner.Pass({{0, 0, 5}});
    for (int token = 0; token < 4; ++token) {
      for (int head = 0; head < 4; ++head) {
        EXPECT_NEAR(*runner.Out(0, token + 1, head), expected[token][head], 1e-5)
            << CpuIsaName(isa) << ", token " << token + 1 << ", head " << head + 1;
      }
    }
  }
}

class AttentionShapes : public testing::TestWithParam<AttentionShape> {};

TEST_P(AttentionShapes, IsTheDefinitionBitForBitOnEveryInstructionSet) {
  const AttentionShape shape = GetParam();
  std::vector<AttentionSequence> sequences = {AttentionSequence(shape, 1)};
  std::vector<float> first;
  for (const CpuIsa isa : InstructionSets()) {
    AttentionRunner runner(shape, sequences, isa, /*threads=*/3);
    runner.Pass({{0, 0, shape.tokens}});
    if (first.empty()) first = runner.out(0);
    EXPECT_TRUE(SameBits(runner.out(0), first)) << CpuIsaName(isa);
    for (const int token : {0, 1, 15, 16, 17, 100, 255, 256, 257, 511, 512, shape.tokens - 1}) {
      if (token >= shape.tokens) continue;
      if (isa != CpuIsa::kPortable) continue;  // the others were found equal to it
      for (int head = 0; head < shape.heads; ++head) {
        const std::vector<float> expected =
            Contexts(shape, sequences[0], token, head, UsualRule(shape));
        ASSERT_EQ(std::memcmp(runner.Out(0, token, head), expected.data(),
                              expected.size() * sizeof(float)),
                  0)
            << "token " << token << ", head " << head;
        const std::vector<double> exact =
            ExactContexts(shape, sequences[0], token, head, UsualRule(shape));
        for (size_t d = 0; d < exact.size(); ++d) ASSERT_NEAR(expected[d], exact[d], 2e-5);
      }
    }
  }
}

// The passes have chunks of any size, single rows, other sequences, and any number of threads.
TEST_P(AttentionShapes, GivesARowTheSameBitsInAnyCompany) {
  const AttentionShape shape = GetParam();
  std::vector<AttentionSequence> sequences = {
      AttentionSequence(shape, 1), AttentionSequence(shape, 2), AttentionSequence(shape, 3)};
  std::vector<std::vector<float>> alone;
  const std::vector<CpuIsa> sets = InstructionSets();
  AttentionRunner whole(shape, sequences, sets.back(), 1);
  for (int i = 0; i < 3; ++i) {
    whole.Pass({{i, 0, shape.tokens}});
    alone.push_back(whole.out(i));
  }
  std::mt19937 random(1);
  for (int threads = 1; threads <= 4; ++threads) {
    const CpuIsa isa = sets[sets.size() - 1 - static_cast<size_t>(threads) % sets.size()];
    AttentionRunner runner(shape, sequences, isa, threads);
    int done[3] = {};
    while (*std::min_element(done, done + 3) < shape.tokens) {
      std::vector<AttentionRunner::Rows> rows;
      for (const int i : {1, 0, 2}) {
        // Mostly decode rows and large chunks.
        const int sizes[] = {0, 1, 1, 2, 7, 40, 64, 150};
        const int count = std::min(sizes[random() % 8], shape.tokens - done[i]);
        if (count > 0) rows.push_back({i, done[i], count});
        done[i] += count;
      }
      if (!rows.empty()) runner.Pass(rows);
    }
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(SameBits(runner.out(i), alone[static_cast<size_t>(i)]))
          << CpuIsaName(isa) << ", " << threads << " threads, sequence " << i;
    }
  }
}

TEST_P(AttentionShapes, GivesDecodeStepsTheBitsOfPrefill) {
  const AttentionShape shape = GetParam();
  std::vector<AttentionSequence> sequences = {AttentionSequence(shape, 1)};
  for (const CpuIsa isa : InstructionSets()) {
    AttentionRunner prefill(shape, sequences, isa, 2);
    prefill.Pass({{0, 0, shape.tokens}});
    AttentionRunner decode(shape, sequences, isa, 2);
    for (int token = 0; token < shape.tokens; ++token) decode.Pass({{0, token, 1}});
    EXPECT_TRUE(SameBits(decode.out(0), prefill.out(0))) << CpuIsaName(isa);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionShapes,
                         testing::Values(AttentionShape{16, 3, 3, 16, KvType::kF32, 600},
                                         AttentionShape{64, 6, 2, 32, KvType::kF16, 600},
                                         AttentionShape{80, 4, 1, 64, KvType::kBf16, 530},
                                         AttentionShape{128, 7, 1, 32, KvType::kF16, 300},
                                         AttentionShape{96, 9, 1, 16, KvType::kF32, 270},
                                         AttentionShape{512, 1, 1, 48, KvType::kBf16, 260},
                                         AttentionShape{48, 5, 5, 32, KvType::kInt8, 300},
                                         AttentionShape{64, 6, 2, 16, KvType::kFp8, 530},
                                         AttentionShape{256, 3, 1, 48, KvType::kInt8, 260},
                                         AttentionShape{64, 6, 2, 32, KvType::kInt4, 300},
                                         AttentionShape{96, 5, 1, 16, KvType::kInt4, 270},
                                         AttentionShape{256, 2, 2, 48, KvType::kInt4, 260}),
                         [](const testing::TestParamInfo<AttentionShape>& shape) {
                           return "HeadDim" + std::to_string(shape.param.head_dim) + "Type" +
                                  std::to_string(static_cast<int>(shape.param.dtype));
                         });

// Scores lie far apart, or are equal: exponentials are 0 or subnormal, or sums have many terms.
TEST(Attention, KeepsItsBitsWithExtremeScores) {
  const AttentionShape shape = {32, 3, 1, 32, KvType::kF32, 560};
  std::vector<AttentionSequence> sequences = {AttentionSequence(shape, 1)};
  for (int token = 0; token < shape.tokens; ++token) {
    for (int d = 0; d < shape.head_dim; ++d) {
      sequences[0].Key(token, 0)[d] *= token % 3 == 0 ? 8.0f : token % 3 == 1 ? 0.0f : 2.0f;
    }
  }
  for (const CpuIsa isa : InstructionSets()) {
    AttentionRunner runner(shape, sequences, isa, 2);
    runner.Pass({{0, 0, 300}});
    for (int token = 300; token < shape.tokens; ++token) runner.Pass({{0, token, 1}});
    for (int token = 0; token < shape.tokens; token += 13) {
      for (int head = 0; head < shape.heads; ++head) {
        const std::vector<float> expected =
            Contexts(shape, sequences[0], token, head, UsualRule(shape));
        ASSERT_EQ(std::memcmp(runner.Out(0, token, head), expected.data(),
                              expected.size() * sizeof(float)),
                  0)
            << CpuIsaName(isa) << ", token " << token << ", head " << head;
      }
    }
  }
}

}  // namespace
}  // namespace baton
