#include "common/backend/cuda/pass/pass_shape.h"

#include <algorithm>
#include <bit>

#include "common/backend/cuda/device/attention_segments.h"
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

int MostTasks(int rows, int most_tokens, int64_t all_tokens) {
  const int64_t by_length = int64_t{rows} * AttentionSegments(most_tokens);
  return static_cast<int>(std::min(by_length, rows + all_tokens / kAttentionSegment));
}

std::vector<RecordedKind> KindsOfShapes(int most_sequences, int most_tokens, int64_t all_tokens) {
  std::vector<RecordedKind> kinds;
  for (int64_t times = 1;; times *= 2) {
    const size_t before = kinds.size();
    for (int rows = 1; rows <= RecordedRows(most_sequences); rows = RecordedRows(rows + 1)) {
      const int64_t tasks = PowerOfTwo(rows) * times;
      const int most = PowerOfTwo(MostTasks(rows, most_tokens, all_tokens));
      if (tasks <= most) kinds.push_back({rows, (tasks - rows) * kAttentionSegment});
    }
    // tests/planted_bugs: recordings_for_short_sequences_only
    if (kinds.size() == before) return kinds;
  }
}

}  // namespace baton
