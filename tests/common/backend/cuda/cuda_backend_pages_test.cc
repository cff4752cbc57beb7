// The operations of the CUDA backend on a paged cache against the CPU's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "common/backend/cuda/cuda_backend.h"
#include "tests/common/backend/cuda/cuda_backend_fixture.h"
#include "tests/support/stored_head.h"

namespace baton {
namespace {

// Sequences over a paged cache of random K and V.
struct PagedCase {
  struct Sequence {
    int before;  // tokens in the cache
    int rows;    // rows in the pass
  };
  std::vector<Sequence> sequences;
  int heads;
  int kv_heads;
  int head_dim;
  int block_size = 16;
  KvType dtype = KvType::kF16;
  RopePairs pairs = RopePairs::kInterleaved;
  int rope_dim = 0;
};

class CudaPaged : public CudaBackendTest {
 protected:
  static constexpr int kLayers = 2;

  // The blocks are in no order. The cache has two layers, of which the second is used.
  void Make(const PagedCase& test) {
    test_ = test;
    tables_.clear();
    batch_.sequences.clear();
    rows_ = 0;
    int blocks = 1;
    for (const auto& sequence : test.sequences) {
      blocks += (sequence.before + sequence.rows + test.block_size - 1) / test.block_size;
    }
    std::vector<int32_t> order(static_cast<size_t>(blocks));
    for (int i = 0; i < blocks; ++i) order[static_cast<size_t>(i)] = i;
    std::shuffle(order.begin(), order.end(), random_);
    for (const auto& sequence : test.sequences) {
      const int count = (sequence.before + sequence.rows + test.block_size - 1) / test.block_size;
      tables_.emplace_back(order.end() - count, order.end());
      order.resize(order.size() - static_cast<size_t>(count));
    }
    for (size_t i = 0; i < tables_.size(); ++i) {
      const auto& sequence = test.sequences[i];
      batch_.sequences.push_back({rows_, sequence.rows, sequence.before, tables_[i].data(),
                                  static_cast<int>(tables_[i].size())});
      rows_ += sequence.rows;
    }
    view_ = {.block_size = test.block_size,
             .kv_heads = test.kv_heads,
             .head_dim = test.head_dim,
             .dtype = test.dtype};
    const size_t part = view_.part().bytes();
    view_.block_bytes = 2 * kLayers * part;
    view_.keys_offset = 2 * part;
    view_.values_offset = 3 * part;
    cache_bytes_.clear();
    if (IsQuantised(test.dtype)) {
      FillCodes(blocks);
    } else {
      const size_t elements =
          view_.block_bytes * static_cast<size_t>(blocks) / KvHeadBytes(test.dtype, 1);
      for (const float value : RandomFloats(random_, elements)) AppendElement(value);
    }
    angles_cos_ = RandomFloats(random_, static_cast<size_t>(rows_ * (test.rope_dim / 2)));
    angles_sin_ = RandomFloats(random_, static_cast<size_t>(rows_ * (test.rope_dim / 2)));
  }

  void FillCodes(int blocks) {
    cache_bytes_.assign(view_.block_bytes * static_cast<size_t>(blocks), 0x5a);
    KvLayerView view = view_;
    view.blocks = cache_bytes_.data();
    const auto row = [&] {
      return RandomFloats(random_, static_cast<size_t>(test_.kv_heads * test_.head_dim));
    };
    for (int block = 0; block < blocks; ++block) {
      for (int token = 0; token < test_.block_size; ++token) {
        StoreHeads(view.part(), row().data(), view.KeyRow(block, token),
                   view.KeyScales(block, token));
        StoreHeads(view.part(), row().data(), view.ValueRow(block, token),
                   view.ValueScales(block, token));
      }
    }
  }

  void AppendElement(float value) {
    const uint32_t bits = test_.dtype == KvType::kF32   ? std::bit_cast<uint32_t>(value)
                          : test_.dtype == KvType::kF16 ? F32ToF16(value)
                                                        : F32ToBf16(value);
    const auto* first = reinterpret_cast<const uint8_t*>(&bits);
    cache_bytes_.insert(cache_bytes_.end(), first, first + KvHeadBytes(test_.dtype, 1));
  }

  // The view of a copy of the cache in the side's memory.
  KvLayerView PutCache(BackendSide& side) {
    KvLayerView view = view_;
    view.blocks = side.Put(cache_bytes_.data(), cache_bytes_.size());
    return view;
  }
  std::vector<float> GetCache(BackendSide& side, const KvLayerView& view) {
    std::vector<uint8_t> bytes(cache_bytes_.size());
    side.backend().Download(view.blocks, bytes.size(), bytes.data());
    std::vector<float> values;
    // Every byte of codes and scales is equal.
    if (IsQuantised(test_.dtype)) return {bytes.begin(), bytes.end()};
    for (size_t at = 0; at < bytes.size(); at += KvHeadBytes(test_.dtype, 1)) {
      uint32_t bits = 0;
      std::memcpy(&bits, &bytes[at], KvHeadBytes(test_.dtype, 1));
      const auto low_bits = static_cast<uint16_t>(bits);
      values.push_back(test_.dtype == KvType::kF32   ? std::bit_cast<float>(bits)
                       : test_.dtype == KvType::kF16 ? F16ToF32(low_bits)
                                                     : Bf16ToF32(low_bits));
    }
    return values;
  }
  // The pass has two ropes: the second one turns the other way, and other pairs.
  void Begin(BackendSide& side, bool recorded = false) {
    side.backend().BeginPass(
        {.batch = &batch_,
         .recorded = recorded,
         .ropes = {{.pairs = test_.pairs,
                    .dim = test_.rope_dim,
                    .cosines = angles_cos_,
                    .sines = angles_sin_},
                   {.pairs = test_.pairs == RopePairs::kHalfSplit ? RopePairs::kInterleaved
                                                                  : RopePairs::kHalfSplit,
                    .dim = test_.rope_dim,
                    .cosines = angles_sin_,
                    .sines = angles_cos_}},
         .query_scales = query_scales_});
  }
  std::vector<float> RandomRows(int columns) {
    return RandomFloats(random_, static_cast<size_t>(rows_) * static_cast<size_t>(columns));
  }

  PagedCase test_;
  std::vector<std::vector<int32_t>> tables_;
  Batch batch_;
  int rows_ = 0;
  KvLayerView view_;
  std::vector<uint8_t> cache_bytes_;
  std::vector<float> angles_cos_;
  std::vector<float> angles_sin_;
  std::vector<float> query_scales_;  // [rows], or empty
};

TEST_F(CudaPaged, RotatesAndAppendsWhatTheCpuDoes) {
  const std::vector<PagedCase::Sequence> mixed = {{0, 7}, {15, 1}, {30, 5}, {33, 1}};
  for (const KvType dtype : kAllKvTypes) {
    for (const PagedCase& test :
         {PagedCase{mixed, 4, 2, 16, 16, dtype, RopePairs::kInterleaved, 16},
          PagedCase{mixed, 3, 3, 24, 48, dtype, RopePairs::kHalfSplit, 24},
          PagedCase{mixed, 6, 1, 64, 32, dtype, RopePairs::kHalfSplit, 32},
          PagedCase{mixed, 2, 1, 80, 16, dtype, RopePairs::kInterleaved, 20}}) {
      if (!TakesHeadDim(dtype, static_cast<size_t>(test.head_dim))) continue;
      Make(test);
      const std::vector<float> queries = RandomRows(test.heads * test.head_dim);
      const std::vector<float> keys = RandomRows(test.kv_heads * test.head_dim);
      const std::vector<float> values = RandomRows(test.kv_heads * test.head_dim);
      // The last bit of the cache's type may differ, if the rotation was fused in another way.
      const double tolerance = dtype == KvType::kF16 ? 3e-4 : dtype == KvType::kBf16 ? 3e-3 : 1e-7;
      ExpectSame(tolerance, [&](BackendSide& side) {
        const KvLayerView view = PutCache(side);
        const Tensor q = side.Put(queries, rows_);
        Begin(side);
        const int rope = test.head_dim % 16 == 0 ? 1 : 0;
        side.backend().RotateAndAppend(rope, q, side.Put(keys, rows_), side.Put(values, rows_),
                                       view);
        std::vector<float> all = GetCache(side, view);
        const std::vector<float> rotated = side.Get(q);
        all.insert(all.end(), rotated.begin(), rotated.end());
        return all;
      });
    }
  }
}

TEST_F(CudaPaged, AttendsToWhatTheCpuDoes) {
  const std::vector<PagedCase::Sequence> mixed = {{0, 19}, {40, 1}, {21, 6}, {300, 1}, {0, 1}};
  for (const KvType dtype : kAllKvTypes) {
    for (const PagedCase& test :
         {PagedCase{mixed, 4, 2, 16, 16, dtype}, PagedCase{mixed, 3, 3, 48, 48, dtype},
          PagedCase{mixed, 8, 1, 64, 32, dtype}}) {
      if (!TakesHeadDim(dtype, static_cast<size_t>(test.head_dim))) continue;
      Make(test);
      const std::vector<float> queries = RandomRows(test.heads * test.head_dim);
      const double tolerance = dtype == KvType::kF32 ? 2e-6 : dtype == KvType::kBf16 ? 6e-3 : 1e-3;
      ExpectSame(tolerance, [&](BackendSide& side) {
        const KvLayerView view = PutCache(side);
        const Tensor out = side.Put(std::vector<float>(queries.size()), rows_);
        Begin(side);
        // Twice, as two layers follow one another: the plan and its counters serve both.
        side.backend().Attention({.scale = 1 / std::sqrt(static_cast<float>(test_.head_dim))},
                                 side.Put(queries, rows_), view, out);
        side.backend().Attention({.scale = 1 / std::sqrt(static_cast<float>(test_.head_dim))},
                                 side.Put(queries, rows_), view, out);
        return side.Get(out);
      });
    }
  }
}

// The contexts, and the bytes of the cache, of three layers with different rules.
std::vector<float> AppendAndAttend(BackendSide& side, const KvLayerView& view, int rope,
                                   const std::vector<Tensor>& rows, const float* sinks,
                                   size_t cache_bytes, bool at_once) {
  std::vector<float> all;
  for (const AttentionRule& rule :
       {AttentionRule{.scale = 0.2f},
        {.scale = 0.3f, .window = 20, .sinks = sinks},
        {.scale = 1 / std::sqrt(static_cast<float>(view.head_dim)), .window = 257}}) {
    std::vector<Tensor> own;  // the operations may change them
    for (const Tensor& tensor : rows) own.push_back(side.Put(side.Get(tensor), tensor.rows));
    const Tensor out = side.Put(std::vector<float>(side.Get(rows[0]).size()), rows[0].rows);
    if (at_once) {
      side.backend().AppendAndAttend(rope, own[0], own[1], own[2], view, rule, out);
    } else {
      side.backend().RotateAndAppend(rope, own[0], own[1], own[2], view);
      side.backend().Attention(rule, own[0], view, out);
    }
    const std::vector<float> contexts = side.Get(out);
    all.insert(all.end(), contexts.begin(), contexts.end());
  }
  std::vector<uint8_t> bytes(cache_bytes);
  side.backend().Download(view.blocks, bytes.size(), bytes.data());
  all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

// New keys at the beginning of the cache, of a page and of a split, and at their ends.
TEST_F(CudaPaged, AppendsAndAttendsAtOnceWithTheBitsOfOneAfterTheOther) {
  const std::vector<PagedCase::Sequence> first = {{0, 1}, {15, 1}, {255, 1}, {300, 1}};
  const std::vector<PagedCase::Sequence> second = {{256, 1}, {16, 1}, {47, 1}, {511, 1}};
  for (const KvType dtype : kAllKvTypes) {
    for (const PagedCase& test :
         {PagedCase{first, 4, 2, 64, 16, dtype, RopePairs::kInterleaved, 64},
          PagedCase{second, 3, 3, 80, 48, dtype, RopePairs::kHalfSplit, 80},
          PagedCase{first, 6, 1, 128, 32, dtype, RopePairs::kHalfSplit, 64},
          PagedCase{second, 2, 2, 256, 16, dtype, RopePairs::kInterleaved, 48},
          PagedCase{second, 16, 1, 96, 16, dtype, RopePairs::kInterleaved, 40}}) {
      // If there is no kernel for both, one shape is enough.
      if ((dtype == KvType::kF32 || dtype == KvType::kInt4) && test.head_dim != 64) continue;
      SCOPED_TRACE("head " + std::to_string(test.head_dim) + ", type " +
                   std::to_string(static_cast<int>(dtype)));
      Make(test);
      query_scales_ = test.head_dim == 128 ? RandomRows(1) : std::vector<float>();
      const std::vector<Tensor> rows = {
          cuda_.Put(RandomRows(test.heads * test.head_dim), rows_),
          cuda_.Put(RandomRows(test.kv_heads * test.head_dim), rows_),
          cuda_.Put(RandomRows(test.kv_heads * test.head_dim), rows_)};
      const float* const sinks =
          cuda_.Put(RandomFloats(random_, static_cast<size_t>(test.heads)), 1).data;
      for (const int rope : {0, test.head_dim == 64 ? kNoRope : 1}) {
        std::vector<std::vector<float>> results;
        for (const bool at_once : {false, true}) {
          const KvLayerView view = PutCache(cuda_);
          Begin(cuda_);
          results.push_back(
              AppendAndAttend(cuda_, view, rope, rows, sinks, cache_bytes_.size(), at_once));
        }
        ASSERT_EQ(results[0].size(), results[1].size());
        ASSERT_EQ(
            std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)), 0)
            << "rope " << rope;
      }
    }
  }
}

// Layers with a window and sinks and layers without follow one another: all have the pass's plan.
TEST_F(CudaPaged, AttendsByTheRuleOfEachLayerAsTheCpuDoes) {
  const std::vector<PagedCase::Sequence> mixed = {{0, 19}, {40, 1}, {250, 9}, {600, 1}, {300, 1}};
  for (const KvType dtype : kAllKvTypes) {
    for (const PagedCase& test :
         {PagedCase{mixed, 3, 3, 64, 48, dtype}, PagedCase{mixed, 8, 1, 32, 32, dtype}}) {
      Make(test);
      const std::vector<float> queries = RandomRows(test.heads * test.head_dim);
      const std::vector<float> sinks = RandomFloats(random_, static_cast<size_t>(test.heads));
      const double tolerance = dtype == KvType::kF32 ? 2e-6 : dtype == KvType::kBf16 ? 6e-3 : 1e-3;
      ExpectSame(tolerance, [&](BackendSide& side) {
        const KvLayerView view = PutCache(side);
        const Tensor q = side.Put(queries, rows_);
        const float* const sinks_there = side.Put(sinks, 1).data;
        std::vector<float> all;
        Begin(side);
        for (const AttentionRule& rule : {AttentionRule{.scale = 0.2f},
                                          {.scale = 0.3f, .window = 20, .sinks = sinks_there},
                                          {.scale = 0.3f, .sinks = sinks_there},
                                          {.scale = 0.2f, .window = 257}}) {
          const Tensor out = side.Put(std::vector<float>(queries.size()), rows_);
          side.backend().Attention(rule, q, view, out);
          const std::vector<float> layer = side.Get(out);
          all.insert(all.end(), layer.begin(), layer.end());
        }
        return all;
      });
    }
  }
}

TEST_F(CudaPaged, AttendsAlikeInRecordedPassesWhereItIsDeterministic) {
  BackendSide side("cuda", /*deterministic=*/true);
  for (const PagedCase& test :
       {PagedCase{{{300, 1}, {40, 1}, {0, 1}, {513, 1}}, 4, 1, 64, 32, KvType::kF16},
        PagedCase{{{300, 1}, {513, 1}}, 2, 1, 48, 16, KvType::kF32}}) {
    Make(test);
    const Tensor queries = side.Put(RandomRows(test.heads * test.head_dim), rows_);
    const Tensor out = side.Put(RandomRows(test.heads * test.head_dim), rows_);
    const KvLayerView view = PutCache(side);
    const float* const sinks = side.Put(RandomRows(test.heads), rows_).data;
    for (const AttentionRule& rule :
         {AttentionRule{.scale = 1 / std::sqrt(static_cast<float>(test_.head_dim))},
          {.scale = 0.3f, .window = 20, .sinks = sinks}}) {
      Begin(side);
      side.backend().Attention(rule, queries, view, out);
      const std::vector<float> expected = side.Get(out);
      Begin(side, /*recorded=*/true);
      side.backend().Attention(rule, queries, view, out);
      EXPECT_EQ(side.Get(out), expected);
    }
  }
}

// A backend's buffers grow and are used again: a pass must not see what an earlier one left there.
TEST_F(CudaPaged, PassesOfAllSizesFollowOneAnother) {
  for (const int rows : {3, 90, 1, 17, 2}) {
    Make({{{static_cast<int>(random_() % 40), rows}, {5, 1}}, 2, 1, 16, 16, KvType::kF32});
    const std::vector<float> queries = RandomRows(32);
    const KvLayerView views[] = {PutCache(cpu_), PutCache(cuda_)};
    ExpectSame(2e-6, [&](BackendSide& side) {
      const Tensor out = side.Put(std::vector<float>(queries.size()), rows_);
      Begin(side);
      side.backend().Attention({.scale = 1 / std::sqrt(static_cast<float>(test_.head_dim))},
                               side.Put(queries, rows_), views[&side == &cuda_], out);
      return side.Get(out);
    });
  }
}

}  // namespace

}  // namespace baton
