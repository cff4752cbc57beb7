// Attention on the device with a window, sinks and scales of any size (AttentionRule).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/common/backend/cuda/attention/attention_fixture.h"

namespace baton {
namespace {

constexpr AttentionCut kCuts[] = {AttentionCut::kByRowCount, AttentionCut::kAlike};

// Sinks about as large as the greatest scores.
CudaRule RandomRule(const CudaShape& shape, int window, uint32_t seed) {
  std::mt19937 random(seed);
  CudaRule rule = {.scale = 0.05 + 0.01 * (random() % 10), .window = window};
  std::normal_distribution<float> normal(2, 3);
  for (int head = 0; head < shape.heads(); ++head) rule.sinks.push_back(normal(random));
  return rule;
}

// Single rows and chunks, some of them behind segments of which they see nothing.
CudaBatch LateBatch(const CudaShape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  return {RandomSequence(shape, 0, 1, random), RandomSequence(shape, 515, 1, random),
          RandomSequence(shape, 790, 1, random), RandomSequence(shape, 250, 7, random),
          RandomSequence(shape, 505, 9, random)};
}

struct RuleCase {
  CudaShape shape;
  std::vector<int> windows;
};

class CudaAttentionRules : public testing::TestWithParam<RuleCase> {};

TEST_P(CudaAttentionRules, AreTheDefinitionForAnyWindow) {
  const CudaShape& shape = GetParam().shape;
  const CudaBatch batch = LateBatch(shape, 1);
  for (const int window : GetParam().windows) {
    const CudaRule rule = RandomRule(shape, window, static_cast<uint32_t>(window));
    for (const AttentionCut cut : kCuts) {
      SCOPED_TRACE("window " + std::to_string(window));
      ExpectDefinition(shape, batch, BatchOnDevice(shape, batch, cut, rule).Run(), rule);
    }
  }
}

// Rows alone and among any number of rows, over the borders of pages, tiles and segments.
TEST_P(CudaAttentionRules, CutAlikeGiveARowTheSameBitsInEveryRun) {
  const CudaShape& shape = GetParam().shape;
  constexpr int kRows = 20;
  for (const int window : GetParam().windows) {
    std::mt19937 random(static_cast<uint32_t>(window));
    const CudaRule rule = RandomRule(shape, window, 3);
    const CudaRows whole = RandomSequence(shape, 500, kRows, random);
    const std::vector<float> expected =
        BatchOnDevice(shape, {whole}, AttentionCut::kAlike, rule).Run();
    for (const int count : {1, 13}) {
      CudaBatch batch;
      for (int begin = 0; begin < kRows; begin += count) {
        batch.push_back(Part(shape, whole, begin, std::min(begin + count, kRows)));
      }
      EXPECT_TRUE(SameBits(BatchOnDevice(shape, batch, AttentionCut::kAlike, rule).Run(), expected))
          << count << " rows at a time, window " << window;
    }
  }
}

// Chunks are of more rows than a run has.
TEST_P(CudaAttentionRules, GiveARowOfAChunkTheSameBitsInAnyChunk) {
  const CudaShape& shape = GetParam().shape;
  constexpr int kRows = 40;
  for (const int window : GetParam().windows) {
    std::mt19937 random(static_cast<uint32_t>(window));
    const CudaRule rule = RandomRule(shape, window, 4);
    const CudaRows whole = RandomSequence(shape, 240, kRows, random);
    const CudaBatch parts = {Part(shape, whole, 0, 17), Part(shape, whole, 17, kRows)};
    EXPECT_TRUE(SameBits(BatchOnDevice(shape, parts, AttentionCut::kByRowCount, rule).Run(),
                         BatchOnDevice(shape, {whole}, AttentionCut::kByRowCount, rule).Run()))
        << "window " << window;
  }
}

TEST_P(CudaAttentionRules, GiveARowOfARunTheBitsOfASingleOne) {
  const CudaShape& shape = GetParam().shape;
  if (!shape.tensor_cores()) return;  // all rows are single ones there
  constexpr int kRows = 12;
  for (const int window : GetParam().windows) {
    std::mt19937 random(static_cast<uint32_t>(window));
    const CudaRule rule = RandomRule(shape, window, 6);
    for (const int first : {3, 250, 505}) {
      const CudaRows whole = RandomSequence(shape, first, kRows, random);
      CudaBatch singles;
      for (int row = 0; row < kRows; ++row) singles.push_back(Part(shape, whole, row, row + 1));
      EXPECT_TRUE(SameBits(BatchOnDevice(shape, {whole}, AttentionCut::kByRowCount, rule).Run(),
                           BatchOnDevice(shape, singles, AttentionCut::kByRowCount, rule).Run()))
          << "window " << window << " from " << first;
    }
  }
}

TEST_P(CudaAttentionRules, GiveTheSameBitsWhereWhatNoRowSeesIsGivenBack) {
  const CudaShape& shape = GetParam().shape;
  const CudaBatch batch = LateBatch(shape, 2);
  std::vector<int> windows = GetParam().windows;
  windows.push_back(20);
  for (const int window : windows) {
    CudaRule rule = RandomRule(shape, window, 8);
    for (const AttentionCut cut : kCuts) {
      rule.gives_back = false;
      const std::vector<float> expected = BatchOnDevice(shape, batch, cut, rule).Run();
      rule.gives_back = true;
      EXPECT_TRUE(SameBits(BatchOnDevice(shape, batch, cut, rule).Run(), expected))
          << "window " << window;
    }
  }
}

// Keys before a row's window change nothing, even if they are NaN, and their values infinite.
TEST_P(CudaAttentionRules, KeepEarlierTokensFromLaterRows) {
  const CudaShape& shape = GetParam().shape;
  for (const int rows : {1, 9}) {
    std::mt19937 random(5);
    const CudaRows clean = RandomSequence(shape, 290, rows, random);
    for (const int window : {20, 40}) {
      const CudaRule rule = RandomRule(shape, window, 6);
      CudaRows poisoned = clean;
      const int keys = 291 - window;  // those before the first row's window
      const auto end = static_cast<ptrdiff_t>(keys * shape.kv_columns());
      std::fill_n(poisoned.values.begin(), end, INFINITY);
      std::fill_n(poisoned.keys.begin(), end, NAN);
      if (IsQuantised(shape.dtype)) {
        constexpr uint8_t kNan = 0xff;  // in every byte
        const auto scales = keys * static_cast<ptrdiff_t>(shape.View().part().scale_bytes());
        std::fill_n(poisoned.value_codes.scales.begin(), scales, kNan);
        std::fill_n(poisoned.key_codes.scales.begin(), scales, kNan);
      }
      for (const AttentionCut cut : kCuts) {
        EXPECT_TRUE(SameBits(BatchOnDevice(shape, {poisoned}, cut, rule).Run(),
                             BatchOnDevice(shape, {clean}, cut, rule).Run()))
            << rows << " rows, window " << window;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttentionRules,
                         testing::Values(RuleCase{{64, 3, 2, 16, KvType::kF16}, {1, 256, 100000}},
                                         RuleCase{{80, 4, 1, 32, KvType::kBf16}, {2, 255}},
                                         RuleCase{{128, 5, 1, 48, KvType::kF16}, {33, 257}},
                                         RuleCase{{256, 2, 1, 64, KvType::kBf16}, {16, 300}},
                                         RuleCase{{64, 2, 1, 16, KvType::kF32}, {1, 33, 256, 257}},
                                         RuleCase{{64, 4, 1, 16, KvType::kInt8}, {2, 255}},
                                         RuleCase{{96, 3, 1, 32, KvType::kFp8}, {16, 300}},
                                         RuleCase{{64, 2, 1, 16, KvType::kInt4}, {33, 257}},
                                         RuleCase{{96, 2, 1, 16, KvType::kInt4}, {33, 257}}),
                         [](const testing::TestParamInfo<RuleCase>& rules) {
                           return NameOf(rules.param.shape);
                         });

constexpr CudaShape kEight = {64, 8, 1, 32, KvType::kF16};

TEST(CudaAttentionSinks, MayBeOfAnySize) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const KvType dtype : {KvType::kF16, KvType::kF32}) {
    CudaShape shape = kEight;
    shape.dtype = dtype;
    const CudaBatch batch = LateBatch(shape, 2);
    for (const AttentionCut cut : kCuts) {
      const CudaRule rule = {.window = 300,
                             .sinks = {kMost, -kMost, -kInfinity, 60, -60, 0, 1, 1e-30f}};
      const std::vector<float> out = BatchOnDevice(shape, batch, cut, rule).Run();
      ExpectDefinition(shape, batch, out, rule);
      const std::vector<float> plain = BatchOnDevice(shape, batch, cut, {.window = 300}).Run();
      for (size_t i = 0; i < out.size(); ++i) {
        const size_t head = i / static_cast<size_t>(shape.head_dim) % 8;
        if (head == 0) {
          ASSERT_EQ(out[i], 0);
        } else if (head <= 2) {
          ASSERT_EQ(out[i], plain[i]);  // a sink that weighs nothing changes no bit
        }
      }
    }
  }
}

// The grids are those of a graph for a larger bucket; the tasks before the windows leave.
TEST(CudaAttentionGrid, ChangesNoBitOfARowWithAWindow) {
  for (const KvType dtype : {KvType::kF16, KvType::kF32}) {
    CudaShape shape = kEight;
    shape.dtype = dtype;
    for (const AttentionCut cut : kCuts) {
      BatchOnDevice device(shape, LateBatch(shape, 3), cut, RandomRule(shape, 20, 7));
      const std::vector<float> expected = device.Run();
      AttentionWork& work = device.work().front();
      work.max_tasks += 7;
      if (work.max_tiles > 0) work.max_tiles += 7;
      EXPECT_TRUE(SameBits(device.Run(), expected));
    }
  }
}

}  // namespace
}  // namespace baton
