#include "common/backend/cuda/pass/pass_shape.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"

namespace baton {
namespace {

int PowerOfTwo(int least) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(least))); }

}  // namespace

int RecordedRows(int rows) {
  BATON_CHECK(rows > 0, "rows of a pass");
  if (rows <= 4) return PowerOfTwo(rows);
  const int step = rows <= 16 ? 4 : rows <= 64 ? 8 : 32;
  return (rows + step - 1) / step * step;
}

PassShape RecordedShape(int rows, absl::Span<const BatchSequence> sequences, int tasks) {
  int entries = 1;
  for (const BatchSequence& sequence : sequences) {
    entries = std::max(entries, sequence.table_entries);
  }
  return {.rows = rows,
          .table_stride = PowerOfTwo(entries),
          .max_tasks = std::max(rows, PowerOfTwo(tasks))};
}

}  // namespace baton
