// The kinds of recorded passes: everything that an argument of a recorded launch depends on.
#pragma once

#include <tuple>

#include "absl/types/span.h"

#include "common/backend/backend.h"

namespace baton {

struct PassShape {
  int rows = 0;
  int table_stride = 0;  // entries of a block table
  int max_tasks = 0;     // tasks of the attention
  bool scales_queries = false;

  friend bool operator<(const PassShape& a, const PassShape& b) {
    return std::tie(a.rows, a.table_stride, a.max_tasks, a.scales_queries) <
           std::tie(b.rows, b.table_stride, b.max_tasks, b.scales_queries);
  }
};

// The least number that is at least `rows` among 1, 2, 4, 8, 12, 16, the multiples of 8 up to 64
// and the multiples of 32 beyond: never more than 31 above `rows`. REQUIRES: rows > 0.
int RecordedRows(int rows);

// The shape that passes of so many rows share if their longest block tables and their numbers of
// tasks are about as large: both are rounded up to powers of two.
PassShape RecordedShape(int rows, absl::Span<const BatchSequence> sequences, int tasks);

}  // namespace baton
