#include "common/backend/cuda/pass/pass_upload.h"

#include <algorithm>
#include <cstring>

namespace baton {
namespace {

constexpr size_t kAlign = 16;

template <class T>
T* At(uint8_t* memory, size_t offset) {
  return reinterpret_cast<T*>(memory + offset);
}

}  // namespace

PassLayout::PassLayout(const Pass& pass, int least_stride)
    : sequences(pass.recorded ? pass.rows : static_cast<int>(pass.sequences.size())),
      table_stride(least_stride) {
  for (const PassSequence& sequence : pass.sequences) {
    table_stride = std::max(table_stride, sequence.block_count);
  }
  const auto add = [this](size_t elements) {
    const size_t offset = bytes;
    bytes += (elements * sizeof(int32_t) + kAlign - 1) / kAlign * kAlign;
    return offset;
  };
  static_assert(sizeof(float) == sizeof(int32_t));
  const auto rows = static_cast<size_t>(pass.rows);
  sequence_of_row = add(rows);
  positions = add(rows);
  const auto tables = static_cast<size_t>(sequences);
  first_rows = add(tables + 1);
  token_ids = add(pass.token_ids.size());
  block_tables = add(tables * static_cast<size_t>(table_stride));
  rope_cos = add(pass.rope_cos.size());
  rope_sin = add(pass.rope_sin.size());
}

void FillPass(const Pass& pass, const PassLayout& layout, uint8_t* memory) {
  auto* sequence_of_row = At<int32_t>(memory, layout.sequence_of_row);
  auto* positions = At<int32_t>(memory, layout.positions);
  auto* first_rows = At<int32_t>(memory, layout.first_rows);
  auto* table = At<int32_t>(memory, layout.block_tables);
  for (size_t s = 0; s < pass.sequences.size(); ++s) {
    const PassSequence& sequence = pass.sequences[s];
    first_rows[s] = sequence.first_row;
    for (int i = 0; i < sequence.row_count; ++i) {
      sequence_of_row[sequence.first_row + i] = static_cast<int32_t>(s);
      positions[sequence.first_row + i] = sequence.first_position + i;
    }
    std::copy_n(sequence.block_table, sequence.block_count, table);
    std::fill(table + sequence.block_count, table + layout.table_stride, 0);
    table += layout.table_stride;
  }
  int rows = pass.sequences.empty() ? 0 : pass.sequences.back().first_row;
  if (!pass.sequences.empty()) rows += pass.sequences.back().row_count;
  std::fill(first_rows + pass.sequences.size(), first_rows + layout.sequences + 1, rows);
  std::fill(sequence_of_row + rows, sequence_of_row + pass.rows, 0);
  std::fill(positions + rows, positions + pass.rows, -1);
  std::fill(table,
            At<int32_t>(memory, layout.block_tables) + layout.sequences * layout.table_stride, 0);
  std::copy(pass.token_ids.begin(), pass.token_ids.end(), At<int32_t>(memory, layout.token_ids));
  std::copy(pass.rope_cos.begin(), pass.rope_cos.end(), At<float>(memory, layout.rope_cos));
  std::copy(pass.rope_sin.begin(), pass.rope_sin.end(), At<float>(memory, layout.rope_sin));
}

CudaPass PassAt(const Pass& pass, const PassLayout& layout, const uint8_t* memory) {
  const auto ints = [memory](size_t offset) {
    return reinterpret_cast<const int32_t*>(memory + offset);
  };
  const auto floats = [memory](size_t offset) {
    return reinterpret_cast<const float*>(memory + offset);
  };
  return {.rows = pass.rows,
          .sequences = layout.sequences,
          .sequence_of_row = ints(layout.sequence_of_row),
          .positions = ints(layout.positions),
          .first_rows = ints(layout.first_rows),
          .block_tables = ints(layout.block_tables),
          .table_stride = layout.table_stride,
          .rope_half_split = pass.rope_pairs == RopePairs::kHalfSplit,
          .rope_dim = pass.rope_dim,
          .rope_cos = floats(layout.rope_cos),
          .rope_sin = floats(layout.rope_sin)};
}

}  // namespace baton
