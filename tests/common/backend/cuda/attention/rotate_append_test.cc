#include "common/backend/cuda/attention/rotate_append.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "common/kv/layout.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"
#include "tests/support/random_values.h"

namespace baton {
namespace {

class RotateAppendInOrder : public EveryFiberOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, RotateAppendInOrder,
                         testing::ValuesIn(cuda_shim::kAllFiberOrders));

struct Shape {
  int head_dim;
  int rope_dim;  // 0: nothing is rotated
  bool half_split;
  KvType dtype;
  int block_size;
  int kv_heads;
  int group;  // query heads that share a KV head
  bool scales_queries;
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    return out << "head " << shape.head_dim << ", rope " << shape.rope_dim << " half "
               << shape.half_split << ", type " << static_cast<int>(shape.dtype) << ", blocks of "
               << shape.block_size << ", " << shape.kv_heads << " x " << shape.group << ", scales "
               << shape.scales_queries;
  }
};

// Rows of several sequences, whose blocks lie anywhere in a cache of several layers.
struct Rows {
  static constexpr int kLayers = 2;

  Rows(const Shape& shape, std::mt19937& random) {
    const int sequence_count = 1 + static_cast<int>(random() % 4);
    std::vector<int> lengths;
    for (int s = 0; s < sequence_count; ++s) {
      const int row_count = 1 + static_cast<int>(random() % 6);
      const int position = static_cast<int>(random() % 60);
      sequences.push_back({.first_row = count, .row_count = row_count, .first_position = position});
      lengths.push_back(position + row_count);
      count += row_count;
    }
    layout = {.layers = kLayers,
              .kv_heads = shape.kv_heads,
              .head_dim = shape.head_dim,
              .block_size = shape.block_size,
              .dtype = shape.dtype};
    const int most_blocks = layout.BlocksFor(*std::max_element(lengths.begin(), lengths.end()));
    block_count = sequence_count * most_blocks + 3;
    std::vector<int32_t> blocks(static_cast<size_t>(block_count));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::shuffle(blocks.begin(), blocks.end(), random);
    blocks.resize(static_cast<size_t>(sequence_count * most_blocks));
    block_tables = blocks;
    for (int s = 0; s < sequence_count; ++s) {
      BatchSequence& sequence = sequences[static_cast<size_t>(s)];
      sequence.block_table = block_tables.data() + s * most_blocks;
      for (int i = 0; i < sequence.row_count; ++i) {
        table_of_row.push_back(s * most_blocks);
        positions.push_back(sequence.first_position + i);
      }
      first_rows.push_back(sequence.first_row);
    }
    first_rows.push_back(count);
  }

  KvLayerView View(uint8_t* blocks, int layer) const {
    return {.blocks = blocks,
            .block_bytes = layout.block_bytes(),
            .keys_offset = layout.RowOffset(layer, KvLayout::kKeys, 0),
            .values_offset = layout.RowOffset(layer, KvLayout::kValues, 0),
            .block_size = layout.block_size,
            .kv_heads = layout.kv_heads,
            .head_dim = layout.head_dim,
            .dtype = layout.dtype};
  }

  int count = 0;
  KvLayout layout;
  int block_count = 0;
  std::vector<BatchSequence> sequences;
  std::vector<int32_t> block_tables, table_of_row, positions, first_rows;
};

// What the CPU makes of the same heads.
void RunOnCpu(const Shape& shape, const Rows& rows, absl::Span<const float> cosines,
              absl::Span<const float> sines, absl::Span<const float> scales, Tensor queries,
              Tensor keys, Tensor values, uint8_t* cache) {
  CpuBackend cpu(CpuIsa::kPortable, 1, {});
  Batch batch;
  batch.sequences = rows.sequences;
  const RopeAngles rope = {
      .pairs = shape.half_split ? RopePairs::kHalfSplit : RopePairs::kInterleaved,
      .dim = shape.rope_dim,
      .cosines = cosines,
      .sines = sines};
  cpu.BeginPass({.batch = &batch,
                 .ropes = {rope},
                 .query_scales = shape.scales_queries ? scales : absl::Span<const float>()});
  cpu.RotateAndAppend(shape.rope_dim == 0 ? kNoRope : 0, queries, keys, values,
                      rows.View(cache, 1));
}

void ExpectTheCpusBits(const Shape& shape, size_t offset, std::mt19937& random) {
  const Rows rows(shape, random);
  const size_t count = static_cast<size_t>(rows.count);
  const int kv_columns = shape.kv_heads * shape.head_dim;
  const int columns = kv_columns * shape.group;
  const size_t pairs = static_cast<size_t>(shape.rope_dim / 2);
  std::vector<float> queries = NormalValues(offset + count * static_cast<size_t>(columns), random);
  std::vector<float> keys = NormalValues(count * static_cast<size_t>(kv_columns), random);
  std::vector<float> values = NormalValues(count * static_cast<size_t>(kv_columns), random);
  const std::vector<float> cosines = NormalValues(count * pairs, random);
  const std::vector<float> sines = NormalValues(count * pairs, random);
  const std::vector<float> scales = NormalValues(count, random);
  std::vector<uint8_t> cache(static_cast<size_t>(rows.block_count) * rows.layout.block_bytes(),
                             0x5a);

  const DeviceArray<float> device_queries(queries), device_keys(keys), device_values(values),
      device_cosines(cosines), device_sines(sines), device_scales(scales);
  const DeviceArray<uint8_t> device_cache(cache);
  const DeviceArray<int32_t> table_of_row(rows.table_of_row), positions(rows.positions),
      first_rows(rows.first_rows), block_tables(rows.block_tables);
  const CudaPass pass{.rows = rows.count,
                      .sequences = static_cast<int>(rows.sequences.size()),
                      .table_of_row = table_of_row.data(),
                      .positions = positions.data(),
                      .first_rows = first_rows.data(),
                      .block_tables = block_tables.data(),
                      .query_scales = shape.scales_queries ? device_scales.data() : nullptr};
  const CudaRope rope{.half_split = shape.half_split,
                      .dim = shape.rope_dim,
                      .cosines = device_cosines.data(),
                      .sines = device_sines.data()};
  LaunchRotateAndAppend(pass, rope, {device_queries.data() + offset, rows.count, columns},
                        {device_keys.data(), rows.count, kv_columns},
                        {device_values.data(), rows.count, kv_columns},
                        rows.View(device_cache.data(), 1), nullptr);

  RunOnCpu(shape, rows, cosines, sines, scales, {queries.data() + offset, rows.count, columns},
           {keys.data(), rows.count, kv_columns}, {values.data(), rows.count, kv_columns},
           cache.data());
  EXPECT_TRUE(device_queries.Download() == queries) << shape;
  EXPECT_TRUE(device_keys.Download() == keys) << shape;
  EXPECT_TRUE(device_values.Download() == values) << shape;
  EXPECT_TRUE(device_cache.Download() == cache) << shape;
}

TEST_P(RotateAppendInOrder, QueriesKeysAndEveryByteOfTheCacheAreTheCpus) {
  std::mt19937 random(1);
  const int head_dims[] = {64, 80, 96, 128, 256};
  const int block_sizes[] = {16, 32, 48};
  for (int trial = 0; trial < 80; ++trial) {
    const int head_dim = head_dims[trial % 5];
    const int rope_dims[] = {head_dim, head_dim, head_dim / 2, 24, 20, 2, 0};
    const KvType dtype = kAllKvTypes[random() % std::size(kAllKvTypes)];
    ExpectTheCpusBits(
        {.head_dim = head_dim,
         .rope_dim = rope_dims[random() % 7],
         .half_split = random() % 2 == 0,
         .dtype = TakesHeadDim(dtype, static_cast<size_t>(head_dim)) ? dtype : KvType::kInt8,
         .block_size = block_sizes[random() % 3],
         .kv_heads = 1 + static_cast<int>(random() % 3),
         .group = 1 + static_cast<int>(random() % 4),
         .scales_queries = random() % 3 == 0},
        trial % 10 == 9 ? 1 : 0, random);
  }
}

TEST(RotateAppend, NoRowsAreNoLaunch) {
  LaunchRotateAndAppend({}, {}, {nullptr, 0, 64}, {nullptr, 0, 64}, {nullptr, 0, 64},
                        {.block_size = 16, .kv_heads = 1, .head_dim = 64}, nullptr);
}

}  // namespace
}  // namespace baton
