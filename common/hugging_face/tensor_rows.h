// Tensors of a model that are put together from rows of those in a folder, while they are
// loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/gguf/model_parts.h"
#include "common/hugging_face/safetensors.h"

namespace baton {

// Rows of a matrix in a file. Those of E4M3 are read as BF16: the code times the scale of its block
// of 128 rows and 128 columns, rounded once. Those of bytes are MXFP4, blocks of 32 columns: in each
// byte the code of an even column, in the low bits, and that of the next one; and for each block a
// byte, the exponent. GGUF has the codes of columns j and j + 16 in a byte.
struct RowSource {
  absl::Span<const uint8_t> data;  // [rows, columns]; of MXFP4 [rows, columns / 2]
  SafeType type;                   // not kOther
  uint64_t columns;
  // E4M3: [rows / 128, columns / 128], both rounded up. MXFP4: [rows, columns / 32].
  absl::Span<const uint8_t> scales;
  SafeType scale_type;  // for E4M3: F32 or BF16
};

inline constexpr uint64_t kScaleBlock = 128;  // rows and columns that have one scale
inline constexpr uint64_t kMxfp4Block = 32;   // columns that have one exponent

struct RowRun {
  RowSource source;
  uint64_t first;     // row
  uint64_t count;     // rows
  uint64_t step = 1;  // from one row to the next
};

struct TensorPlan {
  std::vector<RowRun> runs;  // one after the other; of equal types and columns
  // Not 0: the rows are those of heads with this many rows, whose halves are rotated against each
  // other. They are put so that rotated rows are neighbours: GGUF's order where it turns pairs.
  uint64_t pair_head_rows = 0;
  bool plus_one = false;  // 1 is added to each value, and they become F32
};

// The tensor of a plan. Bytes that lie in the file as they are wanted stay there. `dims` as
// ModelTensor has them; they have the rows and columns of the plan.
ModelTensor PlannedTensor(const std::string& name, std::vector<uint64_t> dims, TensorPlan plan);

}  // namespace baton
