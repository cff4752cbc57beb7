// The kinds of passes that are recorded: what a launch of theirs has as an argument.
#pragma once

#include <tuple>

#include "absl/types/span.h"

#include "common/backend/backend.h"

namespace baton {

struct PassShape {
  int rows = 0;
  int table_stride = 0;  // blocks
  int max_tasks = 0;     // of the attention

  friend bool operator<(const PassShape& a, const PassShape& b) {
    return std::tie(a.rows, a.table_stride, a.max_tasks) <
           std::tie(b.rows, b.table_stride, b.max_tasks);
  }
};

// The least of 1, 2, 4, 8, 12, 16, then of the multiples of 8 up to 64 and of 32 beyond, that is at
// least `rows`: never more than 31 above it. REQUIRES: rows > 0.
int RecordedRows(int rows);

// That the passes of so many rows share whose longest table and whose number of tasks are about as
// large: both are rounded up to powers of two.
PassShape RecordedShape(int rows, absl::Span<const PassSequence> sequences, int tasks);

}  // namespace baton
