#include "common/hugging_face/tensor_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/e4m3.h"
#include "common/base/float_types.h"

namespace baton {
namespace {

template <typename T>
T Load(const uint8_t* bytes, uint64_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

float ValueAt(const uint8_t* bytes, SafeType type, uint64_t index) {
  switch (type) {
    case SafeType::kF32:
      return Load<float>(bytes, index);
    case SafeType::kF16:
      return F16ToF32(Load<uint16_t>(bytes, index));
    default:
      return Bf16ToF32(Load<uint16_t>(bytes, index));
  }
}

void ScaleRow(const RowSource& source, uint64_t row, uint8_t* out) {
  const uint64_t blocks = (source.columns + kScaleBlock - 1) / kScaleBlock;
  const uint8_t* codes = source.data.data() + row * source.columns;
  for (uint64_t block = 0; block < blocks; ++block) {
    const float scale =
        ValueAt(source.scales.data(), source.scale_type, row / kScaleBlock * blocks + block);
    const uint64_t end = std::min(source.columns, (block + 1) * kScaleBlock);
    for (uint64_t column = block * kScaleBlock; column < end; ++column) {
      const uint16_t value = F32ToBf16(E4m3ToF32(codes[column]) * scale);
      std::memcpy(out + column * sizeof(value), &value, sizeof(value));
    }
  }
}

void WriteMxfp4Row(const RowSource& source, uint64_t row, uint8_t* out) {
  constexpr uint64_t kHalf = kMxfp4Block / 2;
  const uint64_t blocks = source.columns / kMxfp4Block;
  const uint8_t* codes = source.data.data() + row * blocks * kHalf;
  const uint8_t* exponents = source.scales.data() + row * blocks;
  for (uint64_t block = 0; block < blocks; ++block, codes += kHalf) {
    const auto code = [codes](uint64_t column) {
      const unsigned both = codes[column / 2];
      return column % 2 == 0 ? both & 15u : both >> 4;
    };
    *out++ = exponents[block];
    for (uint64_t j = 0; j < kHalf; ++j) {
      *out++ = static_cast<uint8_t>(code(j) | code(j + kHalf) << 4);
    }
  }
}

GgmlType TypeOf(const TensorPlan& plan) {
  const SafeType type = plan.runs.front().source.type;
  if (type == SafeType::kU8) return GgmlType::kMxfp4;
  if (plan.plus_one || type == SafeType::kF32) return GgmlType::kF32;
  return type == SafeType::kF16 ? GgmlType::kF16 : GgmlType::kBf16;
}

uint64_t RowBytes(const TensorPlan& plan) {
  const GgmlBlock block = *GgmlBlockOf(TypeOf(plan));
  return plan.runs.front().source.columns / block.elements * block.bytes;
}

uint64_t SourceRowBytes(const RowSource& source) {
  if (source.type == SafeType::kU8) return source.columns / 2;
  return source.columns * SafeTypeBytes(source.type);
}

void WriteRow(const RowSource& source, uint64_t row, bool plus_one, uint8_t* out) {
  if (source.type == SafeType::kF8E4m3) return ScaleRow(source, row, out);
  if (source.type == SafeType::kU8) return WriteMxfp4Row(source, row, out);
  const uint64_t row_bytes = SourceRowBytes(source);
  const uint8_t* in = source.data.data() + row * row_bytes;
  if (!plus_one) {
    std::memcpy(out, in, row_bytes);
    return;
  }
  for (uint64_t column = 0; column < source.columns; ++column) {
    const float value = ValueAt(in, source.type, column) + 1.0f;
    std::memcpy(out + column * sizeof(value), &value, sizeof(value));
  }
}

// The row that comes to `row` when the halves of its head are put in turns.
uint64_t HalvesInTurns(uint64_t row, uint64_t head_rows) {
  const uint64_t within = row % head_rows;
  return row - within + within % 2 * (head_rows / 2) + within / 2;
}

void MakeRows(const TensorPlan& plan, absl::Span<uint8_t> out) {
  const uint64_t row_bytes = RowBytes(plan);
  uint8_t* next = out.data();
  for (const RowRun& run : plan.runs) {
    for (uint64_t row = 0; row < run.count; ++row) {
      const uint64_t from =
          plan.pair_head_rows == 0 ? row : HalvesInTurns(row, plan.pair_head_rows);
      WriteRow(run.source, run.first + from * run.step, plan.plus_one, next);
      next += row_bytes;
    }
  }
  BATON_CHECK(next == out.data() + out.size(), "a row for all bytes");
}

// From a run's first row to its last one.
absl::Span<const uint8_t> BytesOf(const RowRun& run) {
  const uint64_t row_bytes = SourceRowBytes(run.source);
  const uint64_t rows = (run.count - 1) * run.step + 1;
  return run.source.data.subspan(run.first * row_bytes, rows * row_bytes);
}

}  // namespace

ModelTensor PlannedTensor(const std::string& name, std::vector<uint64_t> dims, TensorPlan plan) {
  ModelTensor tensor = {
      .name = name, .type = TypeOf(plan), .dims = std::move(dims), .data = {}, .maker = {}};
  const RowRun& first = plan.runs[0];
  const bool as_it_lies = plan.runs.size() == 1 && first.step == 1 && plan.pair_head_rows == 0 &&
                          !plan.plus_one && first.source.type != SafeType::kF8E4m3 &&
                          first.source.type != SafeType::kU8;
  if (as_it_lies) {
    tensor.data = BytesOf(plan.runs[0]);
    return tensor;
  }
  for (const RowRun& run : plan.runs) tensor.maker.sources.push_back(BytesOf(run));
  tensor.maker.make = [plan = std::move(plan)](absl::Span<uint8_t> out) { MakeRows(plan, out); };
  return tensor;
}

}  // namespace baton
