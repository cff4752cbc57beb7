#include "common/backend/cuda/pass/pass_shape.h"

#include <algorithm>
#include <bit>
#include <set>

#include "common/backend/cuda/attention/attention_plan.h"
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

PassShape RecordedShape(int rows, int tasks) {
  return {.rows = rows, .max_tasks = std::max(rows, PowerOfTwo(tasks))};
}

std::vector<RecordedKind> KindsOfShapes(int most_sequences, int most_tokens) {
  std::vector<RecordedKind> kinds;
  std::set<PassShape> shapes;
  for (int segments = 1;; segments *= 2) {
    const int tokens = std::min(segments * kAttentionSegment, most_tokens);
    for (int rows = 1; rows <= RecordedRows(most_sequences); rows = RecordedRows(rows + 1)) {
      const PassShape shape = RecordedShape(rows, rows * AttentionSegments(tokens));
      if (shapes.insert(shape).second) kinds.push_back({.rows = rows, .tokens = tokens});
    }
    if (tokens == most_tokens) return kinds;
  }
}

}  // namespace baton
