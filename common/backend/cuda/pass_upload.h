// The arrays of a pass in device memory (operands.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/backend/backend.h"
#include "common/backend/cuda/operands.h"
#include "common/backend/cuda/upload_ring.h"

namespace baton {

// Where the arrays of a pass lie in one piece of memory; each begins at a multiple of 16 bytes.
struct PassLayout {
  // `least_stride`: of the tables, which have room for `pass.rows` sequences where it is recorded.
  explicit PassLayout(const Pass& pass, int least_stride = 0);

  int sequences = 0;
  int table_stride = 0;  // blocks of the longest table, or more
  size_t sequence_of_row = 0;
  size_t positions = 0;
  size_t first_rows = 0;
  size_t token_ids = 0;
  size_t block_tables = 0;
  size_t rope_cos = 0;
  size_t rope_sin = 0;
  size_t bytes = 0;  // of all
};

// Writes the arrays of `pass` to `memory` [layout.bytes], the rests of shorter block tables as 0.
// Rows behind the sequences' are at position -1.
void FillPass(const Pass& pass, const PassLayout& layout, uint8_t* memory);
// The arrays at `memory`.
CudaPass PassAt(const Pass& pass, const PassLayout& layout, const uint8_t* memory);

}  // namespace baton
