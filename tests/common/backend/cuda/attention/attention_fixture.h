// Batches of the attention kernels on the device, and the definition of their result.
#pragma once

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

#include "common/backend/cuda/attention/attention.h"
#include "common/backend/cuda/attention/attention_plan.h"
#include "common/base/float_types.h"
#include "test_device.h"
#include "tests/common/backend/cuda/attention/attention_rows.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/same_bytes.h"
#include "tests/support/stored_head.h"

namespace baton {

// A batch in device memory. Elements that no token wrote are NaN; the sequences' blocks are mixed.
class BatchOnDevice {
 public:
  BatchOnDevice(const CudaShape& shape, const CudaBatch& batch,
                AttentionCut cut = AttentionCut::kByRowCount, const CudaRule& rule = {},
                int most_partials = std::numeric_limits<int>::max())
      : shape_(shape), view_(shape.View()), sinks_(rule.sinks) {
    rule_ = {.scale = rule.Scale(shape.head_dim),
             .window = rule.window,
             .sinks = rule.sinks.empty() ? nullptr : sinks_.data()};
    std::vector<int32_t> table_of_row;
    std::vector<int32_t> positions;
    std::vector<int32_t> first_rows = {0};
    std::vector<float> queries;
    int blocks = 0;
    const auto blocks_of = [&shape](const CudaRows& sequence) {
      return (sequence.tokens() + shape.block_size - 1) / shape.block_size;
    };
    for (const CudaRows& sequence : batch) blocks += blocks_of(sequence);
    std::vector<int32_t> ids(static_cast<size_t>(blocks));
    for (int i = 0; i < blocks; ++i) ids[static_cast<size_t>(i)] = i + 1;
    std::mt19937 random(5);
    std::shuffle(ids.begin(), ids.end(), random);
    // The entries behind a table, and those of the other group, are out of range, so that reading
    // them fails.
    std::vector<int32_t> tables(
        (static_cast<size_t>(blocks) + batch.size()) * static_cast<size_t>(view_.groups), 1 << 30);
    int32_t* table = tables.data();
    std::vector<uint8_t> bytes(static_cast<size_t>(blocks + 1) * view_.block_bytes, 0xff);
    view_.blocks = bytes.data();
    for (size_t i = 0; i < batch.size(); ++i) {
      const CudaRows& sequence = batch[i];
      sequences_.push_back(
          {first_rows.back(), sequence.row_count, sequence.first_position, nullptr});
      first_rows.push_back(first_rows.back() + sequence.row_count);
      queries.insert(queries.end(), sequence.queries.begin(), sequence.queries.end());
      for (int row = 0; row < sequence.row_count; ++row) {
        table_of_row.push_back(static_cast<int32_t>(table - tables.data()));
        positions.push_back(sequence.first_position + row);
      }
      const int first_seen = rule.gives_back ? rule.FirstKey(sequence.first_position) : 0;
      for (int token = 0; token < sequence.tokens(); ++token) {
        int32_t& block = table[view_.TableIndex(token)];
        if (token % shape.block_size == 0) {
          const bool is_seen = token + shape.block_size > first_seen;
          block = is_seen ? ids.back() : 0;
          ids.pop_back();
        }
        if (token < first_seen) continue;
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
      table += (blocks_of(sequence) + 1) * view_.groups;
    }
    pass_.rows = first_rows.back();
    pass_.sequences = static_cast<int>(batch.size());
    pass_.table_of_row = Upload(table_of_row);
    pass_.positions = Upload(positions);
    pass_.first_rows = Upload(first_rows);
    pass_.block_tables = Upload(tables);
    queries_ = std::make_unique<DeviceArray<float>>(queries);
    out_ = std::make_unique<DeviceArray<float>>(std::vector<float>(queries.size(), NAN));
    cache_ = std::make_unique<DeviceArray<uint8_t>>(bytes);
    view_.blocks = cache_->data();
    PlanAttention(sequences_, TilesFor(shape.heads(), view_), plan_, cut, most_partials);
    work_ = plan_.At(Upload(plan_.words));
    partials_ = std::make_unique<DeviceArray<float>>(std::vector<float>(
        AttentionPartialBytes(plan_.partials, shape.heads(), shape.head_dim) / sizeof(float) + 1,
        NAN));
    arrivals_ = std::make_unique<DeviceArray<int32_t>>(
        std::vector<int32_t>(static_cast<size_t>(pass_.rows * shape.heads())));
  }

  // The parts of the work.
  std::vector<AttentionWork>& work() { return work_; }

  // The kernel's contexts [rows, columns].
  std::vector<float> Run() {
    out_->Upload(std::vector<float>(static_cast<size_t>(pass_.rows * shape_.columns()), NAN));
    LaunchAttention(pass_, work_, rule_, {queries_->data(), pass_.rows, shape_.columns()}, view_,
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
      const uint16_t code = shape_.dtype == KvType::kF16 ? F32ToF16(x) : F32ToBf16(x);
      if (shape_.dtype == KvType::kF32) {
        std::memcpy(to + 4 * i, &x, sizeof(x));
      } else {
        std::memcpy(to + 2 * i, &code, sizeof(code));
      }
    }
  }
  void Store(const StoredCodes& codes, int token, uint8_t* row, uint8_t* scales) const {
    const KvPartShape part = view_.part();
    const auto index = static_cast<size_t>(token);
    std::copy_n(codes.codes.data() + index * part.row_bytes(), part.row_bytes(), row);
    std::copy_n(codes.scales.data() + index * part.scale_bytes(), part.scale_bytes(), scales);
  }
  const int32_t* Upload(const std::vector<int32_t>& values) {
    integers_.emplace_back(values);
    return integers_.back().data();
  }

  CudaShape shape_;
  KvLayerView view_;
  CudaPass pass_;
  std::vector<BatchSequence> sequences_;
  std::vector<DeviceArray<int32_t>> integers_;
  std::unique_ptr<DeviceArray<float>> queries_;
  std::unique_ptr<DeviceArray<float>> out_;
  std::unique_ptr<DeviceArray<uint8_t>> cache_;
  DeviceArray<float> sinks_;
  AttentionRule rule_;
  AttentionPlan plan_;
  std::vector<AttentionWork> work_;
  std::unique_ptr<DeviceArray<float>> partials_;
  std::unique_ptr<DeviceArray<int32_t>> arrivals_;
};

// The definition in double, for one row and head and for the query as the kernel sees it; and the
// tolerance of its result. The weights for the tensor cores have errors of half a unit of the
// cache's type (of __half if it has codes), each its own; the rest is float32.
struct ExpectedContext {
  std::vector<double> context;    // [head_dim]
  std::vector<double> tolerance;  // [head_dim]
};

inline ExpectedContext Define(const CudaShape& shape, const CudaRows& sequence, int row, int head,
                              const CudaRule& rule) {
  constexpr double kLog2E = 1.4426950408889634;
  const float scale = static_cast<float>(rule.scale == 0 ? kLog2E / std::sqrt(shape.head_dim)
                                                         : kLog2E * rule.Scale(shape.head_dim));
  const int first_key = rule.FirstKey(sequence.first_position + row);
  const size_t head_dim = static_cast<size_t>(shape.head_dim);
  const float* const query =
      sequence.queries.data() + row * shape.columns() + head * shape.head_dim;
  const int offset = head / shape.group * shape.head_dim;
  std::vector<double> weights;
  double max = -std::numeric_limits<double>::infinity();
  double largest_product = 0;
  for (int key = first_key; key <= sequence.first_position + row; ++key) {
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
  if (!rule.sinks.empty()) {
    const double sink = kLog2E * rule.sinks[static_cast<size_t>(head)];
    max = std::max(max, sink);
    sum = std::exp2(sink - max);
    largest_product = std::max(largest_product, std::min(std::abs(sink), 1000.0));
  }
  for (double& weight : weights) sum += weight = std::exp2(weight - max);
  const double unit = !shape.tensor_cores()                 ? 0
                      : shape.matrix_type() == KvType::kF16 ? 0x1p-11
                                                            : 0x1p-8;
  const double float_error = 0x1p-23 * (8 + largest_product);
  ExpectedContext expected = {std::vector<double>(head_dim), std::vector<double>(head_dim)};
  for (size_t d = 0; d < head_dim; ++d) {
    double squares = 0;
    double magnitude = 0;
    for (size_t key = 0; key < weights.size(); ++key) {
      const double term = weights[key] / sum *
                          sequence.values[(static_cast<size_t>(first_key) + key) *
                                              static_cast<size_t>(shape.kv_columns()) +
                                          static_cast<size_t>(offset) + d];
      expected.context[d] += term;
      squares += term * term;
      magnitude += std::abs(term);
    }
    expected.tolerance[d] = 3 * unit * std::sqrt(squares) + float_error * magnitude;
  }
  if (IsRotated(shape.dtype)) {
    // The errors of a whole head come together in every element.
    double tolerance = 0;
    for (const double each : expected.tolerance) tolerance += each;
    expected.context = RotatedHead(expected.context.data(), shape.head_dim);
    expected.tolerance.assign(head_dim, tolerance / std::sqrt(head_dim));
  }
  return expected;
}

inline void ExpectDefinition(const CudaShape& shape, const CudaBatch& batch,
                             const std::vector<float>& out, const CudaRule& rule = {}) {
  int first_row = 0;
  for (const CudaRows& sequence : batch) {
    for (int row = 0; row < sequence.row_count; ++row) {
      // Only a few rows of a long sequence: the reference takes longer than the kernel.
      if (row > 2 && row < sequence.row_count - 2 && row % 7 != 0) continue;
      for (int head = 0; head < shape.heads(); ++head) {
        const ExpectedContext expected = Define(shape, sequence, row, head, rule);
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

// Rows [begin, end) of a sequence, with the keys and values that they see.
inline CudaRows Part(const CudaShape& shape, const CudaRows& sequence, int begin, int end) {
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

// Single rows and several rows, at positions around the borders of pages, blocks, splits and key
// tiles.
inline CudaBatch RandomBatch(const CudaShape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  CudaBatch batch;
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

}  // namespace baton
