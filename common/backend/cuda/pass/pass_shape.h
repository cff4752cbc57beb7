// The kinds of recorded passes: everything that an argument of a recorded launch depends on.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "common/backend/pass_recordings.h"

namespace baton {

struct PassShape {
  int rows = 0;
  int max_tasks = 0;  // tasks of the attention
  bool scales_queries = false;
  int parts = 1;  // parts of the attention; a pass of several has no recording

  friend bool operator<(const PassShape& a, const PassShape& b) {
    return std::tie(a.rows, a.max_tasks, a.scales_queries) <
           std::tie(b.rows, b.max_tasks, b.scales_queries);
  }
};

// The least number that is at least `rows` among 1, 2, 4, 8, 12, 16, the multiples of 8 up to 64
// and the multiples of 32 beyond: never more than 31 above `rows`. REQUIRES: rows > 0.
int RecordedRows(int rows);

// The shape that passes of RecordedRows `rows` share if their numbers of tasks are about as large:
// `tasks` is rounded up to a power of two.
PassShape RecordedShape(int rows, int tasks);

// The most tasks of a pass of `rows` sequences of up to `most_tokens` tokens, and of up to
// `all_tokens` together.
int MostTasks(int rows, int most_tokens, int64_t all_tokens);

// One kind for each shape of the passes of up to `most_sequences` such sequences, in the order of
// PassRecordings::Kinds.
std::vector<RecordedKind> KindsOfShapes(int most_sequences, int most_tokens, int64_t all_tokens);

}  // namespace baton
