#include "common/backend/cuda/pass/pass_upload.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr size_t kAlign = 32;  // a sector of the memory

template <class T>
T* At(uint8_t* memory, size_t offset) {
  return reinterpret_cast<T*>(memory + offset);
}

}  // namespace

PassSize SizeOf(const Pass& pass) {
  const Batch& batch = *pass.batch;
  PassSize size = {
      .rows = pass.rows(),
      .sequences = pass.recorded ? pass.rows() : static_cast<int>(batch.sequences.size()),
      .embeds = !batch.tokens.empty(),
      .scales_queries = !pass.query_scales.empty()};
  for (const RopeAngles& rope : pass.ropes) size.angles.push_back(rope.cosines.size());
  for (const BatchSequence& sequence : batch.sequences) {
    size.table_entries += static_cast<size_t>(sequence.table_entries);
  }
  return size;
}

PassLayout::PassLayout(const PassSize& size) : sequences(size.sequences) {
  const auto add = [this](size_t elements, size_t element_bytes = sizeof(int32_t)) {
    const size_t offset = bytes;
    bytes += (elements * element_bytes + kAlign - 1) / kAlign * kAlign;
    return offset;
  };
  static_assert(sizeof(float) == sizeof(int32_t));
  const auto rows = static_cast<size_t>(size.rows);
  table_of_row = add(rows);
  positions = add(rows);
  first_rows = add(static_cast<size_t>(sequences) + 1);
  tokens = add(size.embeds ? rows : 0, sizeof(InputToken));
  token_ids = add(size.embeds ? rows : 0);
  query_scales = add(size.scales_queries ? rows : 0);
  for (const size_t angles : size.angles) {
    const size_t cosines = add(angles);
    ropes.push_back({.cosines = cosines, .sines = add(angles)});
  }
  plan = add(size.plan_words);
  block_tables = add(size.table_entries);
}

void FillPass(const Pass& pass, const PassLayout& layout, uint8_t* memory) {
  auto* table_of_row = At<int32_t>(memory, layout.table_of_row);
  auto* positions = At<int32_t>(memory, layout.positions);
  auto* first_rows = At<int32_t>(memory, layout.first_rows);
  auto* const tables = At<int32_t>(memory, layout.block_tables);
  int32_t* table = tables;
  const Batch& batch = *pass.batch;
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const BatchSequence& sequence = batch.sequences[s];
    first_rows[s] = sequence.first_row;
    for (int i = 0; i < sequence.row_count; ++i) {
      // tests/planted_bugs: table_begins_behind_the_longest
      table_of_row[sequence.first_row + i] = static_cast<int32_t>(table - tables);
      positions[sequence.first_row + i] = sequence.first_position + i;
    }
    // Kernels read an entry before they mask its keys, so each names a block.
    table = std::transform(sequence.block_table, sequence.block_table + sequence.table_entries,
                           table, [](int32_t block) { return std::max(block, 0); });
  }
  const int rows = batch.rows();
  std::fill(first_rows + batch.sequences.size(), first_rows + layout.sequences + 1, rows);
  std::fill(table_of_row + rows, table_of_row + pass.rows(), 0);
  std::fill(positions + rows, positions + pass.rows(), -1);
  if (!batch.tokens.empty()) {
    auto* tokens = At<InputToken>(memory, layout.tokens);
    tokens = std::copy(batch.tokens.begin(), batch.tokens.end(), tokens);
    std::fill_n(tokens, pass.padding_rows, InputToken());
  }
  const auto all_rows = static_cast<size_t>(pass.rows());
  BATON_CHECK(pass.query_scales.empty() || pass.query_scales.size() == all_rows,
              "a scale for the queries of each row");
  std::copy(pass.query_scales.begin(), pass.query_scales.end(),
            At<float>(memory, layout.query_scales));
  for (size_t i = 0; i < pass.ropes.size(); ++i) {
    const RopeAngles& rope = pass.ropes[i];
    const size_t angles = all_rows * static_cast<size_t>(rope.dim / 2);
    BATON_CHECK(rope.cosines.size() == angles && rope.sines.size() == angles, "angles of all rows");
    std::copy(rope.cosines.begin(), rope.cosines.end(), At<float>(memory, layout.ropes[i].cosines));
    std::copy(rope.sines.begin(), rope.sines.end(), At<float>(memory, layout.ropes[i].sines));
  }
}

CudaPass PassAt(const Pass& pass, const PassLayout& layout, const uint8_t* memory) {
  const auto ints = [memory](size_t offset) {
    return reinterpret_cast<const int32_t*>(memory + offset);
  };
  return {.rows = pass.rows(),
          .sequences = layout.sequences,
          .table_of_row = ints(layout.table_of_row),
          .positions = ints(layout.positions),
          .first_rows = ints(layout.first_rows),
          .block_tables = ints(layout.block_tables),
          .query_scales = pass.query_scales.empty()
                              ? nullptr
                              : reinterpret_cast<const float*>(memory + layout.query_scales)};
}

std::vector<CudaRope> RopesAt(const Pass& pass, const PassLayout& layout, const uint8_t* memory) {
  std::vector<CudaRope> ropes;
  for (size_t i = 0; i < pass.ropes.size(); ++i) {
    const RopeAngles& rope = pass.ropes[i];
    ropes.push_back({.half_split = rope.pairs == RopePairs::kHalfSplit,
                     .dim = rope.dim,
                     .cosines = reinterpret_cast<const float*>(memory + layout.ropes[i].cosines),
                     .sines = reinterpret_cast<const float*>(memory + layout.ropes[i].sines)});
  }
  return ropes;
}

}  // namespace baton
