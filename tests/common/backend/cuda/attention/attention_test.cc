#include "common/backend/cuda/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/common/backend/cuda/attention/attention_fixture.h"

namespace baton {
namespace {

using cuda_shim::FiberOrder;

class CudaAttention : public testing::TestWithParam<CudaShape> {
 protected:
  ~CudaAttention() override { cuda_shim::SetFiberOrder(FiberOrder::kForward); }
};

TEST_P(CudaAttention, IsTheDefinitionWhateverTheOrderOfThreads) {
  const CudaBatch batch = RandomBatch(GetParam(), 1);
  BatchOnDevice device(GetParam(), batch);
  std::vector<float> first;
  for (const FiberOrder order : cuda_shim::kAllFiberOrders) {
    cuda_shim::SetFiberOrder(order);
    const std::vector<float> out = device.Run();
    if (first.empty()) {
      first = out;
      ExpectDefinition(GetParam(), batch, out);
    }
    EXPECT_TRUE(SameBits(out, first));
  }
}

TEST_P(CudaAttention, GivesARowTheSameBitsAloneAndInAnyBatch) {
  const CudaBatch batch = RandomBatch(GetParam(), 2);
  const std::vector<float> all = BatchOnDevice(GetParam(), batch).Run();
  size_t at = 0;
  for (const CudaRows& sequence : batch) {
    const std::vector<float> alone = BatchOnDevice(GetParam(), {sequence}).Run();
    const auto first = all.begin() + static_cast<ptrdiff_t>(at);
    EXPECT_TRUE(SameBits({first, first + static_cast<ptrdiff_t>(alone.size())}, alone))
        << sequence.row_count << " rows from " << sequence.first_position;
    at += alone.size();
  }
}

TEST_P(CudaAttention, CutAlikeIsTheDefinitionWhateverTheOrderOfThreads) {
  const CudaBatch batch = RandomBatch(GetParam(), 6);
  BatchOnDevice device(GetParam(), batch, AttentionCut::kAlike);
  std::vector<float> first;
  for (const FiberOrder order : cuda_shim::kAllFiberOrders) {
    cuda_shim::SetFiberOrder(order);
    const std::vector<float> out = device.Run();
    if (first.empty()) {
      first = out;
      ExpectDefinition(GetParam(), batch, out);
    }
    EXPECT_TRUE(SameBits(out, first));
  }
}

// Rows alone and among any number of rows, over the borders of pages, tiles and segments.
TEST_P(CudaAttention, CutAlikeGivesARowTheSameBitsInEveryRun) {
  const CudaShape& shape = GetParam();
  std::mt19937 random(7);
  const int tile = shape.tensor_cores() ? TilesFor(shape.heads(), shape.View()).prefill_rows : 8;
  for (const int first : {245, 500}) {
    const int rows = std::min(tile + 3, 24);
    const CudaRows whole = RandomSequence(shape, first, rows, random);
    const std::vector<float> expected = BatchOnDevice(shape, {whole}, AttentionCut::kAlike).Run();
    for (const int count : {1, 13}) {
      CudaBatch batch;
      for (int begin = 0; begin < rows; begin += count) {
        batch.push_back(Part(shape, whole, begin, std::min(begin + count, rows)));
      }
      const std::vector<float> out = BatchOnDevice(shape, batch, AttentionCut::kAlike).Run();
      EXPECT_TRUE(SameBits(out, expected)) << count << " rows at a time from " << first;
    }
  }
}

std::string ShapeName(const testing::TestParamInfo<CudaShape>& shape) {
  return NameOf(shape.param);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaAttention,
    testing::Values(CudaShape{64, 3, 2, 16, KvType::kF16}, CudaShape{80, 4, 1, 32, KvType::kBf16},
                    CudaShape{96, 5, 1, 64, KvType::kF16}, CudaShape{128, 4, 2, 32, KvType::kBf16},
                    CudaShape{256, 2, 1, 64, KvType::kF16}, CudaShape{80, 2, 1, 16, KvType::kF32},
                    CudaShape{64, 4, 2, 16, KvType::kInt8}, CudaShape{80, 3, 1, 32, KvType::kFp8},
                    CudaShape{64, 3, 2, 16, KvType::kInt4}, CudaShape{96, 2, 1, 32, KvType::kInt4}),
    ShapeName);

// The work is cut in any way, with any number of query heads for a KV head.
TEST(CudaAttentionGroups, OfOneToSixteenAreTheDefinition) {
  for (int group = 1; group <= 16; ++group) {
    const CudaShape shape = {64, group, 1, 32, KvType::kBf16};
    std::mt19937 random(static_cast<uint32_t>(group));
    const CudaBatch batch = {RandomSequence(shape, 37, 1, random),
                             RandomSequence(shape, 250, 9, random)};
    for (const AttentionCut cut : {AttentionCut::kByRowCount, AttentionCut::kAlike}) {
      SCOPED_TRACE(group);
      ExpectDefinition(shape, batch, BatchOnDevice(shape, batch, cut).Run());
    }
  }
}

// A sequence has more rows than a tile holds, and each row has one head.
TEST(CudaAttentionRuns, LongerThanAnyTileAreTheDefinition) {
  const CudaShape shape = {64, 1, 1, 32, KvType::kBf16};
  const int tile = TilesFor(shape.heads(), shape.View()).prefill_rows;
  std::mt19937 random(9);
  const CudaBatch batch = {RandomSequence(shape, 10, tile + 20, random)};
  for (const AttentionCut cut : {AttentionCut::kByRowCount, AttentionCut::kAlike}) {
    ExpectDefinition(shape, batch, BatchOnDevice(shape, batch, cut).Run());
  }
}

// Scores of one sign, which from some key on are much larger or smaller: the maximum that weights
// are relative to moves by little, by much, late or never, and from far below zero.
TEST(CudaAttentionScores, OfAnySizeAreTheDefinition) {
  for (const KvType dtype : {KvType::kBf16, KvType::kF16}) {
    for (const float sign : {1.0F, -1.0F}) {
      for (const float late : {0.02F, 2.0F, 40.0F, -40.0F}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(dtype) << " " << sign << " " << late);
        const CudaShape shape = {128, 3, 1, 16, dtype};
        std::mt19937 random(11);
        CudaRows sequence = RandomSequence(shape, 90, 12, random);
        for (float& query : sequence.queries) query = std::abs(query);
        for (size_t i = 0; i < sequence.keys.size(); ++i) {
          const bool is_late = i >= 60 * static_cast<size_t>(shape.kv_columns());
          const float key = std::abs(sequence.keys[i]) * sign * (is_late ? late : 1);
          sequence.keys[i] = Rounded(dtype, key);
        }
        ExpectDefinition(shape, {sequence}, BatchOnDevice(shape, {sequence}).Run());
      }
    }
  }
}

class CudaAttentionMoreShapes : public CudaAttention {};

TEST_P(CudaAttentionMoreShapes, AreTheDefinition) {
  const CudaBatch batch = RandomBatch(GetParam(), 4);
  BatchOnDevice device(GetParam(), batch);
  const std::vector<float> out = device.Run();
  ExpectDefinition(GetParam(), batch, out);
  if (GetParam().tensor_cores()) {
    ExpectDefinition(GetParam(), batch,
                     BatchOnDevice(GetParam(), batch, AttentionCut::kAlike).Run());
  }
  if (!IsQuantised(GetParam().dtype)) return;
  for (const FiberOrder order : cuda_shim::kAllFiberOrders) {
    cuda_shim::SetFiberOrder(order);
    EXPECT_TRUE(SameBits(device.Run(), out));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaAttentionMoreShapes,
    testing::Values(CudaShape{64, 1, 2, 32, KvType::kBf16}, CudaShape{128, 16, 1, 48, KvType::kF16},
                    CudaShape{128, 8, 1, 16, KvType::kF16}, CudaShape{256, 3, 1, 16, KvType::kBf16},
                    CudaShape{64, 4, 1, 32, KvType::kF32}, CudaShape{96, 1, 1, 64, KvType::kF32},
                    CudaShape{128, 3, 1, 32, KvType::kF32}, CudaShape{256, 1, 1, 16, KvType::kF32},
                    CudaShape{48, 2, 1, 16, KvType::kBf16}, CudaShape{512, 1, 1, 16, KvType::kF16},
                    CudaShape{16, 18, 1, 16, KvType::kF16}, CudaShape{64, 16, 1, 32, KvType::kFp8},
                    CudaShape{80, 1, 2, 16, KvType::kInt8}, CudaShape{96, 4, 1, 64, KvType::kFp8},
                    CudaShape{128, 8, 1, 16, KvType::kInt8}, CudaShape{256, 2, 1, 32, KvType::kFp8},
                    CudaShape{256, 1, 1, 16, KvType::kInt8}, CudaShape{48, 2, 2, 16, KvType::kFp8},
                    CudaShape{512, 1, 1, 16, KvType::kInt8},
                    CudaShape{128, 8, 1, 16, KvType::kInt4},
                    CudaShape{256, 2, 2, 32, KvType::kInt4},
                    CudaShape{160, 2, 1, 16, KvType::kInt4}),
    ShapeName);

// The distance of a quantised cache's contexts from those of a float32 cache, relative to their
// size.
TEST(CudaAttentionTypes, AByteAnElementMovesContextsLittle) {
  for (const auto& [dtype, most] : {std::pair{KvType::kInt8, 0.012}, {KvType::kFp8, 0.05}}) {
    for (const int head_dim : {64, 128}) {
      CudaShape shape = {head_dim, 4, 1, 32, KvType::kF32};
      std::mt19937 random(7);
      CudaBatch batch;
      for (const int rows : {1, 1, 20}) {
        batch.push_back(RandomSequence(shape, 90 + rows, rows, random));
        for (float& query : batch.back().queries) query /= 4;  // scores of a trained model's size
      }
      const std::vector<float> exact = BatchOnDevice(shape, batch).Run();
      shape.dtype = dtype;
      for (CudaRows& sequence : batch) {
        sequence.key_codes = Quantise(shape, KvSide::kKeys, sequence.keys);
        sequence.value_codes = Quantise(shape, KvSide::kValues, sequence.values);
      }
      const std::vector<float> quantised = BatchOnDevice(shape, batch).Run();
      double squares = 0;
      double differences = 0;
      for (size_t i = 0; i < exact.size(); ++i) {
        squares += double{exact[i]} * exact[i];
        differences += std::pow(double{quantised[i]} - exact[i], 2);
      }
      EXPECT_LT(std::sqrt(differences / squares), most) << head_dim;
      EXPECT_GT(std::sqrt(differences / squares), most / 20) << head_dim;
    }
  }
}

// Values whose sizes differ by powers of two up to 2^24, in a page or from a warp's first page to its
// second, so that the products of weights and scales of codes have no common size.
TEST(CudaAttentionTypes, ValuesOfAnySizeAreTheDefinition) {
  for (const KvType dtype : {KvType::kInt8, KvType::kFp8}) {
    for (const int head_dim : {64, 128, 256}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(dtype) << " " << head_dim);
      const CudaShape shape = {head_dim, 3, 2, 16, dtype};
      CudaShape exact = shape;
      exact.dtype = KvType::kF32;
      std::mt19937 random(13);
      CudaBatch batch;
      for (const int rows : {1, 1, 5}) {
        CudaRows sequence = RandomSequence(exact, 120 + rows, rows, random);
        for (size_t i = 0; i < sequence.values.size(); ++i) {
          const int key = static_cast<int>(i) / shape.kv_columns();
          const int of_page = key < 64 ? -12 : 12;
          sequence.values[i] =
              std::ldexp(sequence.values[i], batch.empty() ? key * 7 % 25 - 12 : of_page);
        }
        sequence.key_codes = Quantise(shape, KvSide::kKeys, sequence.keys);
        sequence.value_codes = Quantise(shape, KvSide::kValues, sequence.values);
        batch.push_back(sequence);
      }
      ExpectDefinition(shape, batch, BatchOnDevice(shape, batch).Run());
    }
  }
}

constexpr CudaShape kUsual = {64, 4, 1, 32, KvType::kBf16};

// The grids are those of a graph for a larger bucket.
TEST(CudaAttentionGrid, ChangesNoBit) {
  for (const KvType dtype : {KvType::kBf16, KvType::kF32, KvType::kFp8}) {
    CudaShape shape = kUsual;
    shape.dtype = dtype;
    BatchOnDevice device(shape, RandomBatch(shape, 3));
    const std::vector<float> expected = device.Run();
    AttentionWork& work = device.work().front();
    work.max_tasks += 7;
    if (work.max_tiles > 0) work.max_tiles += 7;
    EXPECT_TRUE(SameBits(device.Run(), expected));
  }
}

// A token and the guesses behind it: as if each were the only row, whatever is behind it.
TEST(CudaAttentionShortRuns, GiveRowsTheBitsOfSingleOnes) {
  for (const KvType dtype : {KvType::kBf16, KvType::kF16, KvType::kFp8, KvType::kInt4}) {
    for (const CudaRule& rule : {CudaRule{}, CudaRule{.window = 40}}) {
      for (const int group : {1, 4, 6, 16}) {
        const CudaShape shape = {64, group, 2, 32, dtype};
        std::mt19937 random(11);
        CudaBatch runs;
        CudaBatch singles;
        for (const auto& [position, rows] :
             {std::pair(0, 2), {250, 16}, {13, 5}, {511, 3}, {700, 7}, {253, 4}}) {
          runs.push_back(RandomSequence(shape, position, rows, random));
          for (int row = 0; row < rows; ++row)
            singles.push_back(Part(shape, runs.back(), row, row + 1));
        }
        for (const AttentionCut cut : {AttentionCut::kByRowCount, AttentionCut::kAlike}) {
          EXPECT_TRUE(SameBits(BatchOnDevice(shape, runs, cut, rule).Run(),
                               BatchOnDevice(shape, singles, cut, rule).Run()))
              << group << " heads, window " << rule.window;
        }
      }
    }
  }
}

// Two sequences have partial results at a time. Those of the others are in the same memory later.
TEST(CudaAttentionParts, ChangeNoBit) {
  for (const KvType dtype : {KvType::kBf16, KvType::kF32, KvType::kFp8, KvType::kInt4}) {
    CudaShape shape = kUsual;
    shape.dtype = dtype;
    std::mt19937 random(5);
    CudaBatch batch = RandomBatch(shape, 3);
    for (int i = 0; i < 5; ++i) batch.push_back(RandomSequence(shape, 512 + i, 1, random));
    for (const AttentionCut cut : {AttentionCut::kByRowCount, AttentionCut::kAlike}) {
      BatchOnDevice parts(shape, batch, cut, {}, /*most_partials=*/6);
      EXPECT_GE(parts.work().size(), 3u);
      EXPECT_TRUE(SameBits(parts.Run(), BatchOnDevice(shape, batch, cut).Run()));
    }
  }
}

// Rows of a chunk see nothing of the rows behind them, even if these are infinite or NaN. Rows that
// see a NaN become NaN.
TEST(CudaAttentionMask, KeepsLaterTokensFromEarlierRows) {
  struct Case {
    KvType dtype;
    AttentionCut cut;
  };
  for (const auto& [dtype, cut] : {Case{KvType::kBf16, AttentionCut::kByRowCount},
                                   {KvType::kF16, AttentionCut::kByRowCount},
                                   {KvType::kF32, AttentionCut::kByRowCount},
                                   {KvType::kInt8, AttentionCut::kByRowCount},
                                   {KvType::kFp8, AttentionCut::kByRowCount},
                                   {KvType::kInt4, AttentionCut::kByRowCount},
                                   {KvType::kF16, AttentionCut::kAlike},
                                   {KvType::kInt8, AttentionCut::kAlike},
                                   {KvType::kInt4, AttentionCut::kAlike}}) {
    CudaShape shape = kUsual;
    shape.dtype = dtype;
    std::mt19937 random(4);
    const CudaRows clean = RandomSequence(shape, 40, 50, random);
    const std::vector<float> expected = BatchOnDevice(shape, {clean}, cut).Run();
    bool keys_too = false;
    for (const int poisoned : {41, 64, 79, 89}) {
      CudaRows sequence = clean;
      const auto from = static_cast<ptrdiff_t>(poisoned * shape.kv_columns());
      std::fill(sequence.values.begin() + from, sequence.values.end(), keys_too ? NAN : INFINITY);
      if (keys_too) std::fill(sequence.keys.begin() + from, sequence.keys.end(), NAN);
      if (IsQuantised(dtype)) {
        constexpr uint8_t kNan = 0xff;  // in every byte
        const auto scale = poisoned * static_cast<ptrdiff_t>(shape.View().part().scale_bytes());
        std::vector<uint8_t>& scales = sequence.value_codes.scales;
        std::fill(scales.begin() + scale, scales.end(), kNan);
        std::vector<uint8_t>& key_scales = sequence.key_codes.scales;
        if (keys_too) std::fill(key_scales.begin() + scale, key_scales.end(), kNan);
      }
      keys_too = !keys_too;
      const std::vector<float> out = BatchOnDevice(shape, {sequence}, cut).Run();
      const auto border = static_cast<ptrdiff_t>((poisoned - 40) * shape.columns());
      EXPECT_TRUE(SameBits({out.begin(), out.begin() + border},
                           {expected.begin(), expected.begin() + border}))
          << "from position " << poisoned;
      EXPECT_TRUE(
          std::none_of(out.begin() + border, out.end(), [](float x) { return std::isfinite(x); }))
          << "from position " << poisoned;
    }
  }
}

}  // namespace
}  // namespace baton
