#include "common/backend/cpu/attention/rope.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "common/backend/cpu/kernels/kernels.h"
#include "common/base/float_types.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/stored_head.h"

namespace baton {
namespace {

constexpr int kHeads = 3;
constexpr int kKvHeads = 2;
constexpr int kBlockSize = 16;
constexpr int kRows = 7;

struct RopeShape {
  int head_dim;
  int rope_dim;
  RopePairs pairs;
  KvType dtype;
  bool rotates = true;  // false: kNoRope
  bool scales_queries = false;
};

std::vector<float> Random(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> floats(size);
  for (float& x : floats) x = normal(random);
  return floats;
}

// Two sequences: rows 0 to 4 at positions 14 to 18, across a border of blocks, and rows 5 and 6 at
// positions 0 and 1.
class RopeRun {
 public:
  RopeRun(const RopeShape& shape, CpuIsa isa, int threads) : shape_(shape) {
    const auto head_dim = static_cast<size_t>(shape.head_dim);
    queries_ = Random(kRows * kHeads * head_dim, 1);
    keys_ = Random(kRows * kKvHeads * head_dim, 2);
    values_ = Random(kRows * kKvHeads * head_dim, 3);
    cosines_ = Random(kRows * static_cast<size_t>(shape.rope_dim) / 2, 4);
    sines_ = Random(cosines_.size(), 5);
    if (shape.scales_queries) query_scales_ = Random(kRows, 6);
    const std::vector<float> others(kRows * head_dim / 2, 0.5f);
    cache_ = {.block_size = kBlockSize,
              .kv_heads = kKvHeads,
              .head_dim = shape.head_dim,
              .dtype = shape.dtype};
    bytes_.assign(3 * 2 * cache_.part().bytes(), 0xcd);
    cache_.blocks = bytes_.data();
    cache_.block_bytes = 2 * cache_.part().bytes();
    cache_.values_offset = cache_.part().bytes();
    Batch batch;
    batch.sequences = {{0, 5, 14, first_table_, 2}, {5, 2, 0, second_table_, 1}};
    ThreadPool pool(threads, {});
    RotateAndAppendRows(
        KernelsFor(isa), pool,
        {.batch = &batch,
         // The first rope is another kind of layer's.
         .ropes =
             {{.pairs = RopePairs::kHalfSplit,
               .dim = shape.head_dim,
               .cosines = others,
               .sines = others},
              {.pairs = shape.pairs, .dim = shape.rope_dim, .cosines = cosines_, .sines = sines_}},
         .query_scales = query_scales_},
        shape.rotates ? 1 : kNoRope, {queries_.data(), kRows, kHeads * shape.head_dim},
        {keys_.data(), kRows, kKvHeads * shape.head_dim},
        {values_.data(), kRows, kKvHeads * shape.head_dim}, cache_);
  }

  // What the header says of a tensor whose contents were `before`.
  std::vector<float> Rotated(std::vector<float> before, int heads) const {
    const int pairs = shape_.rotates ? shape_.rope_dim / 2 : 0;
    for (int row = 0; row < kRows; ++row) {
      for (int head = 0; head < heads; ++head) {
        float* x = before.data() + (row * heads + head) * shape_.head_dim;
        for (int i = 0; i < pairs; ++i) {
          const bool interleaved = shape_.pairs == RopePairs::kInterleaved;
          float& a = x[interleaved ? 2 * i : i];
          float& b = x[interleaved ? 2 * i + 1 : i + pairs];
          const float c = cosines_[static_cast<size_t>(row * pairs + i)];
          const float s = sines_[static_cast<size_t>(row * pairs + i)];
          const float rotated = std::fma(a, c, -(b * s));
          b = std::fma(a, s, b * c);
          a = rotated;
        }
      }
    }
    return before;
  }
  std::vector<float> ExpectedQueries() const {
    std::vector<float> queries = Rotated(Random(queries_.size(), 1), kHeads);
    for (size_t i = 0; i < queries.size() && !query_scales_.empty(); ++i) {
      queries[i] *= query_scales_[i / (queries.size() / kRows)];
    }
    return queries;
  }
  std::vector<float> ExpectedKeys() const { return Rotated(Random(keys_.size(), 2), kKvHeads); }

  const uint8_t* StoredKey(int row) const {
    return cache_.KeyRow(BlockOf(row), PositionOf(row) % kBlockSize);
  }
  const uint8_t* StoredValue(int row) const {
    return cache_.ValueRow(BlockOf(row), PositionOf(row) % kBlockSize);
  }
  const uint8_t* KeyScales(int row) const {
    return cache_.KeyScales(BlockOf(row), PositionOf(row) % kBlockSize);
  }
  const uint8_t* ValueScales(int row) const {
    return cache_.ValueScales(BlockOf(row), PositionOf(row) % kBlockSize);
  }
  const std::vector<float>& queries() const { return queries_; }
  const std::vector<float>& keys() const { return keys_; }
  const std::vector<float>& values() const { return values_; }
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  const KvLayerView& cache() const { return cache_; }

 private:
  static int PositionOf(int row) { return row < 5 ? 14 + row : row - 5; }
  int32_t BlockOf(int row) const {
    return row < 5 ? first_table_[PositionOf(row) / kBlockSize] : second_table_[0];
  }

  const int32_t first_table_[2] = {2, 0};
  const int32_t second_table_[1] = {1};
  RopeShape shape_;
  std::vector<float> queries_, keys_, values_, cosines_, sines_, query_scales_;
  std::vector<uint8_t> bytes_;
  KvLayerView cache_;
};

// Numbers of pairs that fill vectors and that do not, and heads of which only a part is rotated.
const RopeShape kShapes[] = {{64, 64, RopePairs::kHalfSplit, KvType::kF32},
                             {64, 64, RopePairs::kInterleaved, KvType::kF32},
                             {48, 34, RopePairs::kHalfSplit, KvType::kF32},
                             {48, 22, RopePairs::kInterleaved, KvType::kF32},
                             {16, 2, RopePairs::kHalfSplit, KvType::kF32},
                             {16, 2, RopePairs::kInterleaved, KvType::kF32},
                             {48, 34, RopePairs::kHalfSplit, KvType::kF32, true, true},
                             {48, 48, RopePairs::kInterleaved, KvType::kF32, false, false},
                             {16, 16, RopePairs::kInterleaved, KvType::kF32, false, true}};

TEST(RotateAndAppend, IsItsDefinitionBitForBitOnEveryInstructionSet) {
  for (const RopeShape& shape : kShapes) {
    for (const CpuIsa isa : InstructionSets()) {
      const RopeRun run(shape, isa, 2);
      EXPECT_EQ(run.queries(), run.ExpectedQueries()) << CpuIsaName(isa) << ", " << shape.rope_dim;
      EXPECT_EQ(run.keys(), run.ExpectedKeys()) << CpuIsaName(isa) << ", " << shape.rope_dim;
    }
  }
}

TEST(RotateAndAppend, StoresEachRowAtItsPositionAndNothingElse) {
  const RopeRun run(kShapes[0], CpuIsa::kPortable, 2);
  const size_t row_bytes = run.cache().row_bytes();
  for (int row = 0; row < kRows; ++row) {
    EXPECT_EQ(std::memcmp(run.StoredKey(row), run.keys().data() + row * kKvHeads * 64, row_bytes),
              0)
        << row;
    EXPECT_EQ(
        std::memcmp(run.StoredValue(row), run.values().data() + row * kKvHeads * 64, row_bytes), 0)
        << row;
  }
  EXPECT_EQ(run.values(), Random(run.values().size(), 3));  // values are not rotated
  size_t untouched = 0;
  for (const uint8_t byte : run.bytes()) untouched += byte == 0xcd;
  EXPECT_GE(untouched, run.bytes().size() - 2 * kRows * row_bytes);
}

TEST(RotateAndAppend, StoresEveryKvTypeWithTheSameBitsOnEveryInstructionSetAndThread) {
  for (const KvType dtype : kAllKvTypes) {
    const RopeShape shape = {64, 64, RopePairs::kInterleaved, dtype};
    const RopeRun first(shape, CpuIsa::kPortable, 1);
    for (const CpuIsa isa : InstructionSets()) {
      EXPECT_EQ(RopeRun(shape, isa, 3).bytes(), first.bytes())
          << CpuIsaName(isa) << ", " << static_cast<int>(dtype);
    }
  }
  const RopeRun halves({64, 64, RopePairs::kInterleaved, KvType::kF16}, CpuIsa::kPortable, 1);
  uint16_t stored;
  std::memcpy(&stored, halves.StoredKey(6) + 2 * 5, sizeof(stored));
  EXPECT_EQ(stored, F32ToF16(halves.keys()[6 * kKvHeads * 64 + 5]));
}

// All heads of `rows`, rotated as an int4 cache has them.
std::vector<float> RotatedHeads(const std::vector<float>& rows, int head_dim) {
  std::vector<float> rotated;
  for (size_t i = 0; i < rows.size(); i += static_cast<size_t>(head_dim)) {
    const std::vector<float> head = RotatedHead(&rows[i], head_dim);
    rotated.insert(rotated.end(), head.begin(), head.end());
  }
  return rotated;
}

TEST(RotateAndAppend, AnInt4CacheHasWhatItsDefinitionSaysOnEveryInstructionSet) {
  for (const int head_dim : {32, 64, 96, 512}) {
    const RopeShape shape = {head_dim, head_dim, RopePairs::kHalfSplit, KvType::kInt4, true, true};
    for (const CpuIsa isa : InstructionSets()) {
      SCOPED_TRACE(testing::Message() << CpuIsaName(isa) << ", " << head_dim);
      const RopeRun run(shape, isa, 2);
      EXPECT_EQ(run.queries(), RotatedHeads(run.ExpectedQueries(), head_dim));
      EXPECT_EQ(run.keys(), run.ExpectedKeys());
      const KvPartShape part = run.cache().part();
      for (int row = 0; row < kRows; ++row) {
        std::vector<uint8_t> codes(part.row_bytes());
        std::vector<uint8_t> scales(part.scale_bytes());
        const auto expect_stored = [&](const std::vector<float>& floats, const uint8_t* stored,
                                       const uint8_t* stored_scales) {
          StoreHeads(part, &floats[static_cast<size_t>(row * kKvHeads * head_dim)], codes.data(),
                     scales.data());
          EXPECT_EQ(std::memcmp(stored, codes.data(), codes.size()), 0) << row;
          EXPECT_EQ(std::memcmp(stored_scales, scales.data(), scales.size()), 0) << row;
        };
        expect_stored(run.keys(), run.StoredKey(row), run.KeyScales(row));
        expect_stored(run.values(), run.StoredValue(row), run.ValueScales(row));
      }
    }
  }
}

}  // namespace
}  // namespace baton
