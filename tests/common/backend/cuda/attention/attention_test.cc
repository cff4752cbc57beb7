#include "common/backend/cuda/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/backend/cuda/attention/attention_plan.h"
#include "common/base/float_types.h"
#include "test_device.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/stored_head.h"

namespace baton {
namespace {

using cuda_shim::FiberOrder;

struct Shape {
  int head_dim;
  int group;
  int kv_heads;
  int block_size;
  KvType dtype;

  int heads() const { return group * kv_heads; }
  int columns() const { return heads() * head_dim; }
  int kv_columns() const { return kv_heads * head_dim; }
  KvLayerView View() const {
    KvLayerView view = {
        .block_size = block_size, .kv_heads = kv_heads, .head_dim = head_dim, .dtype = dtype};
    const size_t half = view.part().bytes();
    // Another layer lies before it and another behind it.
    view.keys_offset = 2 * half;
    view.values_offset = 3 * half;
    view.block_bytes = 6 * half;
    return view;
  }
  bool tensor_cores() const { return PrefillTileRows(heads(), View()) > 0; }
  // The elements that the tensor cores multiply.
  KvType matrix_type() const { return IsQuantised(dtype) ? KvType::kF16 : dtype; }
};

std::string Name(const Shape& shape) {
  const char* const types[] = {"F32", "F16", "Bf16", "Int8", "Fp8"};
  return "Dim" + std::to_string(shape.head_dim) + "Group" + std::to_string(shape.group) + "Heads" +
         std::to_string(shape.kv_heads) + "Block" + std::to_string(shape.block_size) +
         types[static_cast<int>(shape.dtype)];
}

float Rounded(KvType dtype, float x) {
  if (dtype == KvType::kF16) return F16ToF32(F32ToF16(x));
  if (dtype == KvType::kBf16) return Bf16ToF32(F32ToBf16(x));
  return x;
}

// Keys or values of a sequence in a quantised cache: codes [tokens, kv_columns], scales [tokens,
// kv_heads].
struct Codes {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

// Rows [first_position, first_position + row_count) of a sequence and the keys and values of all
// positions up to them, as the kernels see them.
struct Sequence {
  int first_position;
  int row_count;
  std::vector<float> queries;  // [row_count, columns]
  std::vector<float> keys;     // [tokens, kv_columns]
  std::vector<float> values;
  Codes key_codes;
  Codes value_codes;

  int tokens() const { return first_position + row_count; }
};

// Quantises `floats` [tokens, kv_columns] and replaces them by the elements that the kernels see.
Codes Quantise(const Shape& shape, std::vector<float>& floats) {
  Codes codes;
  for (size_t i = 0; i < floats.size(); i += static_cast<size_t>(shape.head_dim)) {
    const StoredHead head = StoreHead(shape.dtype, &floats[i], shape.head_dim);
    codes.codes.insert(codes.codes.end(), head.codes.begin(), head.codes.end());
    codes.scales.push_back(head.scale);
    for (size_t d = 0; d < head.values.size(); ++d) {
      floats[i + d] = shape.tensor_cores() ? Rounded(KvType::kF16, head.values[d]) : head.values[d];
    }
  }
  return codes;
}

Sequence RandomSequence(const Shape& shape, int first_position, int row_count,
                        std::mt19937& random) {
  Sequence sequence = {first_position, row_count, {}, {}, {}, {}, {}};
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& floats, int rows, int columns, float size,
                        bool stored) {
    floats.resize(static_cast<size_t>(rows * columns));
    for (float& x : floats)
      x = stored ? Rounded(shape.dtype, size * normal(random)) : size * normal(random);
  };
  // The queries prefer some keys to others.
  fill(sequence.queries, row_count, shape.columns(), 2, false);
  fill(sequence.keys, sequence.tokens(), shape.kv_columns(), 1, true);
  fill(sequence.values, sequence.tokens(), shape.kv_columns(), 1, true);
  if (IsQuantised(shape.dtype)) {
    sequence.key_codes = Quantise(shape, sequence.keys);
    sequence.value_codes = Quantise(shape, sequence.values);
  }
  return sequence;
}

using Batch = std::vector<Sequence>;

// A batch in device memory. Elements that no token wrote are NaN; the sequences' blocks are mixed.
class Device {
 public:
  Device(const Shape& shape, const Batch& batch, AttentionCut cut = AttentionCut::kByRowCount)
      : shape_(shape), view_(shape.View()) {
    std::vector<int32_t> sequence_of_row;
    std::vector<int32_t> positions;
    std::vector<int32_t> first_rows = {0};
    std::vector<float> queries;
    int blocks = 0;
    for (const Sequence& sequence : batch) {
      const int needed = (sequence.tokens() + shape.block_size - 1) / shape.block_size;
      pass_.table_stride = std::max(pass_.table_stride, needed + 1);
      blocks += needed;
    }
    std::vector<int32_t> ids(static_cast<size_t>(blocks));
    for (int i = 0; i < blocks; ++i) ids[static_cast<size_t>(i)] = i;
    std::mt19937 random(5);
    std::shuffle(ids.begin(), ids.end(), random);
    // The entries behind a table are out of range, so that reading them fails.
    std::vector<int32_t> tables(batch.size() * static_cast<size_t>(pass_.table_stride), 1 << 30);
    std::vector<uint8_t> bytes(static_cast<size_t>(blocks) * view_.block_bytes, 0xff);
    view_.blocks = bytes.data();
    for (size_t i = 0; i < batch.size(); ++i) {
      const Sequence& sequence = batch[i];
      sequences_.push_back(
          {first_rows.back(), sequence.row_count, sequence.first_position, nullptr});
      first_rows.push_back(first_rows.back() + sequence.row_count);
      queries.insert(queries.end(), sequence.queries.begin(), sequence.queries.end());
      for (int row = 0; row < sequence.row_count; ++row) {
        sequence_of_row.push_back(static_cast<int32_t>(i));
        positions.push_back(sequence.first_position + row);
      }
      int32_t* const table = tables.data() + i * static_cast<size_t>(pass_.table_stride);
      for (int token = 0; token < sequence.tokens(); ++token) {
        int32_t& block = table[token / shape.block_size];
        if (token % shape.block_size == 0) {
          block = ids.back();
          ids.pop_back();
        }
        const int row = token % shape.block_size;
        if (IsQuantised(shape.dtype)) {
          Store(sequence.key_codes, token, view_.KeyRow(block, row), view_.KeyScales(block, row));
          Store(sequence.value_codes, token, view_.ValueRow(block, row),
                view_.ValueScales(block, row));
        } else {
          Store(sequence.keys, token, view_.KeyRow(block, row));
          Store(sequence.values, token, view_.ValueRow(block, row));
        }
      }
    }
    pass_.rows = first_rows.back();
    pass_.sequences = static_cast<int>(batch.size());
    pass_.sequence_of_row = Upload(sequence_of_row);
    pass_.positions = Upload(positions);
    pass_.first_rows = Upload(first_rows);
    pass_.block_tables = Upload(tables);
    queries_ = std::make_unique<DeviceArray<float>>(queries);
    out_ = std::make_unique<DeviceArray<float>>(std::vector<float>(queries.size(), NAN));
    cache_ = std::make_unique<DeviceArray<uint8_t>>(bytes);
    view_.blocks = cache_->data();
    PlanAttention(sequences_, PrefillTileRows(shape.heads(), view_), plan_, cut);
    work_ = plan_.At(Upload(plan_.words));
    partials_ = std::make_unique<DeviceArray<float>>(std::vector<float>(
        AttentionPartialBytes(plan_.partials, shape.heads(), shape.head_dim) / sizeof(float) + 1,
        NAN));
    arrivals_ = std::make_unique<DeviceArray<int32_t>>(
        std::vector<int32_t>(static_cast<size_t>(pass_.rows * shape.heads())));
  }

  AttentionWork& work() { return work_; }

  // The kernel's contexts [rows, columns].
  std::vector<float> Run() {
    out_->Upload(std::vector<float>(static_cast<size_t>(pass_.rows * shape_.columns()), NAN));
    LaunchAttention(pass_, work_, {queries_->data(), pass_.rows, shape_.columns()}, view_,
                    {out_->data(), pass_.rows, shape_.columns()},
                    {partials_->data(), arrivals_->data()}, /*stream=*/nullptr);
    std::vector<float> out = out_->Download();
    for (const int32_t arrived : arrivals_->Download()) EXPECT_EQ(arrived, 0);
    return out;
  }

 private:
  void Store(const std::vector<float>& rows, int token, uint8_t* to) const {
    for (int i = 0; i < shape_.kv_columns(); ++i) {
      const float x = rows[static_cast<size_t>(token * shape_.kv_columns() + i)];
      const uint16_t half = shape_.dtype == KvType::kF16 ? F32ToF16(x) : F32ToBf16(x);
      if (shape_.dtype == KvType::kF32) {
        std::memcpy(to + 4 * i, &x, sizeof(x));
      } else {
        std::memcpy(to + 2 * i, &half, sizeof(half));
      }
    }
  }
  void Store(const Codes& codes, int token, uint8_t* row, uint8_t* scales) const {
    std::copy_n(codes.codes.data() + token * shape_.kv_columns(), shape_.kv_columns(), row);
    std::memcpy(scales, codes.scales.data() + token * shape_.kv_heads,
                sizeof(float) * static_cast<size_t>(shape_.kv_heads));
  }
  const int32_t* Upload(const std::vector<int32_t>& values) {
    integers_.emplace_back(values);
    return integers_.back().data();
  }

  Shape shape_;
  KvLayerView view_;
  CudaPass pass_;
  std::vector<BatchSequence> sequences_;
  std::vector<DeviceArray<int32_t>> integers_;
  std::unique_ptr<DeviceArray<float>> queries_;
  std::unique_ptr<DeviceArray<float>> out_;
  std::unique_ptr<DeviceArray<uint8_t>> cache_;
  AttentionPlan plan_;
  AttentionWork work_;
  std::unique_ptr<DeviceArray<float>> partials_;
  std::unique_ptr<DeviceArray<int32_t>> arrivals_;
};

// The definition in double, for one row and head and for the query as the kernel sees it; and the
// tolerance of its result. The weights for the tensor cores have errors of half a unit of the
// cache's type (of __half where it has codes), each its own; the rest is float32.
struct Expected {
  std::vector<double> context;    // [head_dim]
  std::vector<double> tolerance;  // [head_dim]
};

Expected Define(const Shape& shape, const Sequence& sequence, int row, int head) {
  const float scale = static_cast<float>(1.4426950408889634 / std::sqrt(shape.head_dim));
  const size_t head_dim = static_cast<size_t>(shape.head_dim);
  const float* const query =
      sequence.queries.data() + row * shape.columns() + head * shape.head_dim;
  const int offset = head / shape.group * shape.head_dim;
  std::vector<double> weights;
  double max = -std::numeric_limits<double>::infinity();
  double largest_product = 0;
  for (int key = 0; key <= sequence.first_position + row; ++key) {
    const float* const k = sequence.keys.data() + key * shape.kv_columns() + offset;
    double score = 0;
    double product = 0;
    for (size_t d = 0; d < head_dim; ++d) {
      const float scaled = query[d] * scale;
      const double q = shape.tensor_cores() ? Rounded(shape.matrix_type(), scaled) : scaled;
      score += q * k[d];
      product += std::abs(q * k[d]);
    }
    weights.push_back(score);
    max = std::max(max, score);
    largest_product = std::max(largest_product, product);
  }
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp2(weight - max);
  const double unit = !shape.tensor_cores()                 ? 0
                      : shape.matrix_type() == KvType::kF16 ? 0x1p-11
                                                            : 0x1p-8;
  const double float_error = 0x1p-23 * (8 + largest_product);
  Expected expected = {std::vector<double>(head_dim), std::vector<double>(head_dim)};
  for (size_t d = 0; d < head_dim; ++d) {
    double squares = 0;
    double magnitude = 0;
    for (size_t key = 0; key < weights.size(); ++key) {
      const double term = weights[key] / sum *
                          sequence.values[key * static_cast<size_t>(shape.kv_columns()) +
                                          static_cast<size_t>(offset) + d];
      expected.context[d] += term;
      squares += term * term;
      magnitude += std::abs(term);
    }
    expected.tolerance[d] = 3 * unit * std::sqrt(squares) + float_error * magnitude;
  }
  return expected;
}

void ExpectDefinition(const Shape& shape, const Batch& batch, const std::vector<float>& out) {
  int first_row = 0;
  for (const Sequence& sequence : batch) {
    for (int row = 0; row < sequence.row_count; ++row) {
      // Only a few rows of a long sequence: the reference takes longer than the kernel.
      if (row > 2 && row < sequence.row_count - 2 && row % 7 != 0) continue;
      for (int head = 0; head < shape.heads(); ++head) {
        const Expected expected = Define(shape, sequence, row, head);
        const float* const context =
            out.data() + (first_row + row) * shape.columns() + head * shape.head_dim;
        for (size_t d = 0; d < expected.context.size(); ++d) {
          ASSERT_NEAR(context[d], expected.context[d], expected.tolerance[d])
              << "position " << sequence.first_position + row << " of " << sequence.tokens()
              << ", head " << head << ", element " << d;
        }
      }
    }
    first_row += sequence.row_count;
  }
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Single rows and several rows, at positions around the borders of pages, blocks, splits and key
// tiles.
Batch RandomBatch(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  Batch batch;
  const int single_rows[] = {0, 15 + static_cast<int>(random() % 2),
                             255 + static_cast<int>(random() % 2), 515};
  for (const int position : single_rows) {
    batch.push_back(RandomSequence(shape, position, 1, random));
  }
  const int rows[] = {2, 3, 16, 17};
  const int first_positions[] = {0, 14, 30, 62, 250};
  for (const int position : first_positions) {
    batch.push_back(RandomSequence(shape, position, rows[random() % 4], random));
  }
  std::shuffle(batch.begin(), batch.end(), random);
  return batch;
}

class CudaAttention : public testing::TestWithParam<Shape> {
 protected:
  ~CudaAttention() override { cuda_shim::SetFiberOrder(FiberOrder::kForward); }
};

TEST_P(CudaAttention, IsTheDefinitionWhateverTheOrderOfThreads) {
  const Batch batch = RandomBatch(GetParam(), 1);
  Device device(GetParam(), batch);
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
  const Batch batch = RandomBatch(GetParam(), 2);
  const std::vector<float> all = Device(GetParam(), batch).Run();
  size_t at = 0;
  for (const Sequence& sequence : batch) {
    const std::vector<float> alone = Device(GetParam(), {sequence}).Run();
    const auto first = all.begin() + static_cast<ptrdiff_t>(at);
    EXPECT_TRUE(SameBits({first, first + static_cast<ptrdiff_t>(alone.size())}, alone))
        << sequence.row_count << " rows from " << sequence.first_position;
    at += alone.size();
  }
}

TEST_P(CudaAttention, CutAlikeIsTheDefinitionWhateverTheOrderOfThreads) {
  const Batch batch = RandomBatch(GetParam(), 6);
  Device device(GetParam(), batch, AttentionCut::kAlike);
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

// Rows [begin, end) of a sequence, with the keys and values that they see.
Sequence Part(const Shape& shape, const Sequence& sequence, int begin, int end) {
  const auto slice = [](const std::vector<float>& values, int from, int to) {
    return std::vector<float>(values.begin() + from, values.begin() + to);
  };
  const int tokens = sequence.first_position + end;
  return {sequence.first_position + begin,
          end - begin,
          slice(sequence.queries, begin * shape.columns(), end * shape.columns()),
          slice(sequence.keys, 0, tokens * shape.kv_columns()),
          slice(sequence.values, 0, tokens * shape.kv_columns()),
          sequence.key_codes,
          sequence.value_codes};
}

// Rows alone and among any number of rows, over the borders of pages, tiles and segments.
TEST_P(CudaAttention, CutAlikeGivesARowTheSameBitsInEveryRun) {
  const Shape& shape = GetParam();
  std::mt19937 random(7);
  const int tile = shape.tensor_cores() ? PrefillTileRows(shape.heads(), shape.View()) : 8;
  for (const int first : {245, 500}) {
    const int rows = std::min(tile + 3, 24);
    const Sequence whole = RandomSequence(shape, first, rows, random);
    const std::vector<float> expected = Device(shape, {whole}, AttentionCut::kAlike).Run();
    for (const int count : {1, 13}) {
      Batch batch;
      for (int begin = 0; begin < rows; begin += count) {
        batch.push_back(Part(shape, whole, begin, std::min(begin + count, rows)));
      }
      const std::vector<float> out = Device(shape, batch, AttentionCut::kAlike).Run();
      EXPECT_TRUE(SameBits(out, expected)) << count << " rows at a time from " << first;
    }
  }
}

std::string ShapeName(const testing::TestParamInfo<Shape>& shape) { return Name(shape.param); }

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaAttention,
    testing::Values(Shape{64, 3, 2, 16, KvType::kF16}, Shape{80, 4, 1, 32, KvType::kBf16},
                    Shape{96, 5, 1, 64, KvType::kF16}, Shape{128, 4, 2, 32, KvType::kBf16},
                    Shape{256, 2, 1, 64, KvType::kF16}, Shape{80, 2, 1, 16, KvType::kF32},
                    Shape{64, 4, 2, 16, KvType::kInt8}, Shape{80, 3, 1, 32, KvType::kFp8}),
    ShapeName);

// The work is cut in any way, with any number of query heads for a KV head.
TEST(CudaAttentionGroups, OfOneToSixteenAreTheDefinition) {
  for (int group = 1; group <= 16; ++group) {
    const Shape shape = {64, group, 1, 32, KvType::kBf16};
    std::mt19937 random(static_cast<uint32_t>(group));
    const Batch batch = {RandomSequence(shape, 37, 1, random),
                         RandomSequence(shape, 250, 9, random)};
    for (const AttentionCut cut : {AttentionCut::kByRowCount, AttentionCut::kAlike}) {
      SCOPED_TRACE(group);
      ExpectDefinition(shape, batch, Device(shape, batch, cut).Run());
    }
  }
}

// A sequence has more rows than a tile holds, and each row has one head.
TEST(CudaAttentionRuns, LongerThanAnyTileAreTheDefinition) {
  const Shape shape = {64, 1, 1, 32, KvType::kBf16};
  const int tile = PrefillTileRows(shape.heads(), shape.View());
  std::mt19937 random(9);
  const Batch batch = {RandomSequence(shape, 10, tile + 20, random)};
  for (const AttentionCut cut : {AttentionCut::kByRowCount, AttentionCut::kAlike}) {
    ExpectDefinition(shape, batch, Device(shape, batch, cut).Run());
  }
}

class CudaAttentionMoreShapes : public CudaAttention {};

TEST_P(CudaAttentionMoreShapes, AreTheDefinition) {
  const Batch batch = RandomBatch(GetParam(), 4);
  Device device(GetParam(), batch);
  const std::vector<float> out = device.Run();
  ExpectDefinition(GetParam(), batch, out);
  if (GetParam().tensor_cores()) {
    ExpectDefinition(GetParam(), batch, Device(GetParam(), batch, AttentionCut::kAlike).Run());
  }
  if (!IsQuantised(GetParam().dtype)) return;
  for (const FiberOrder order : cuda_shim::kAllFiberOrders) {
    cuda_shim::SetFiberOrder(order);
    EXPECT_TRUE(SameBits(device.Run(), out));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaAttentionMoreShapes,
    testing::Values(Shape{64, 1, 2, 32, KvType::kBf16}, Shape{128, 16, 1, 48, KvType::kF16},
                    Shape{128, 8, 1, 16, KvType::kF16}, Shape{256, 3, 1, 16, KvType::kBf16},
                    Shape{64, 4, 1, 32, KvType::kF32}, Shape{96, 1, 1, 64, KvType::kF32},
                    Shape{128, 3, 1, 32, KvType::kF32}, Shape{256, 1, 1, 16, KvType::kF32},
                    Shape{48, 2, 1, 16, KvType::kBf16}, Shape{512, 1, 1, 16, KvType::kF16},
                    Shape{16, 18, 1, 16, KvType::kF16}, Shape{64, 16, 1, 32, KvType::kFp8},
                    Shape{80, 1, 2, 16, KvType::kInt8}, Shape{96, 4, 1, 64, KvType::kFp8},
                    Shape{128, 8, 1, 16, KvType::kInt8}, Shape{256, 2, 1, 32, KvType::kFp8},
                    Shape{256, 1, 1, 16, KvType::kInt8}, Shape{48, 2, 2, 16, KvType::kFp8},
                    Shape{512, 1, 1, 16, KvType::kInt8}),
    ShapeName);

// The distance of a quantised cache's contexts from those of a float32 cache, relative to their
// size.
TEST(CudaAttentionTypes, AByteAnElementMovesContextsLittle) {
  for (const auto& [dtype, most] : {std::pair{KvType::kInt8, 0.012}, {KvType::kFp8, 0.05}}) {
    for (const int head_dim : {64, 128}) {
      Shape shape = {head_dim, 4, 1, 32, KvType::kF32};
      std::mt19937 random(7);
      Batch batch;
      for (const int rows : {1, 1, 20}) {
        batch.push_back(RandomSequence(shape, 90 + rows, rows, random));
        for (float& query : batch.back().queries) query /= 4;  // scores of a trained model's size
      }
      const std::vector<float> exact = Device(shape, batch).Run();
      shape.dtype = dtype;
      for (Sequence& sequence : batch) {
        sequence.key_codes = Quantise(shape, sequence.keys);
        sequence.value_codes = Quantise(shape, sequence.values);
      }
      const std::vector<float> quantised = Device(shape, batch).Run();
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

constexpr Shape kUsual = {64, 4, 1, 32, KvType::kBf16};

// The grids are those of a graph for a larger bucket.
TEST(CudaAttentionGrid, ChangesNoBit) {
  for (const KvType dtype : {KvType::kBf16, KvType::kF32, KvType::kFp8}) {
    Shape shape = kUsual;
    shape.dtype = dtype;
    Device device(shape, RandomBatch(shape, 3));
    const std::vector<float> expected = device.Run();
    AttentionWork& work = device.work();
    work.max_tasks += 7;
    if (work.max_tiles > 0) work.max_tiles += 7;
    EXPECT_TRUE(SameBits(device.Run(), expected));
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
                                   {KvType::kF16, AttentionCut::kAlike},
                                   {KvType::kInt8, AttentionCut::kAlike}}) {
    Shape shape = kUsual;
    shape.dtype = dtype;
    std::mt19937 random(4);
    const Sequence clean = RandomSequence(shape, 40, 50, random);
    const std::vector<float> expected = Device(shape, {clean}, cut).Run();
    bool keys_too = false;
    for (const int poisoned : {41, 64, 79, 89}) {
      Sequence sequence = clean;
      const auto from = static_cast<ptrdiff_t>(poisoned * shape.kv_columns());
      std::fill(sequence.values.begin() + from, sequence.values.end(), keys_too ? NAN : INFINITY);
      if (keys_too) std::fill(sequence.keys.begin() + from, sequence.keys.end(), NAN);
      if (IsQuantised(dtype)) {
        const auto scale = static_cast<ptrdiff_t>(poisoned * shape.kv_heads);
        std::vector<float>& scales = sequence.value_codes.scales;
        std::fill(scales.begin() + scale, scales.end(), NAN);
        std::vector<float>& key_scales = sequence.key_codes.scales;
        if (keys_too) std::fill(key_scales.begin() + scale, key_scales.end(), NAN);
      }
      keys_too = !keys_too;
      const std::vector<float> out = Device(shape, {sequence}, cut).Run();
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
