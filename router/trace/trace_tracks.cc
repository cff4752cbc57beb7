#include "router/trace/trace_tracks.h"

#include <algorithm>
#include <numeric>

namespace baton {
namespace {

// The spans of one request that share a row, in order of their beginning.
struct Row {
  // Whether the span stands behind all that the row has, or within the last of them that is open.
  bool Takes(const TraceSpan& span) const {
    for (auto open = spans.rbegin(); open != spans.rend(); ++open) {
      if ((*open)->end_ns <= span.begin_ns) continue;
      return span.end_ns <= (*open)->end_ns;
    }
    return true;
  }
  std::vector<const TraceSpan*> spans;
};

}  // namespace

int TraceTracks::FirstFree(int64_t begin_ns, const std::vector<int>& taken) {
  for (size_t i = 0; i < free_from_ns_.size(); ++i) {
    const bool is_taken = std::find(taken.begin(), taken.end(), static_cast<int>(i)) != taken.end();
    if (free_from_ns_[i] <= begin_ns && !is_taken) return static_cast<int>(i);
  }
  if (free_from_ns_.size() == kBound) return -1;
  free_from_ns_.push_back(0);
  return static_cast<int>(free_from_ns_.size()) - 1;
}

std::vector<int> TraceTracks::Give(const RequestTrace& trace) {
  // Who contains others comes before them.
  std::vector<size_t> order(trace.spans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const TraceSpan &first = trace.spans[a], &second = trace.spans[b];
    if (first.begin_ns != second.begin_ns) return first.begin_ns < second.begin_ns;
    return first.end_ns > second.end_ns;
  });
  std::vector<Row> rows;
  std::vector<size_t> row_of(trace.spans.size());
  for (const size_t place : order) {
    const TraceSpan& span = trace.spans[place];
    // Best where its parent is.
    size_t row = span.parent < 0 ? 0 : row_of[static_cast<size_t>(span.parent)];
    if (row < rows.size() && !rows[row].Takes(span)) row = 0;
    while (row < rows.size() && !rows[row].Takes(span)) ++row;
    if (row == rows.size()) rows.emplace_back();
    rows[row].spans.push_back(&span);
    row_of[place] = row;
  }
  std::vector<int> tracks;
  for (const Row& row : rows) {
    tracks.push_back(FirstFree(row.spans.front()->begin_ns, tracks));
    if (tracks.back() < 0) return {};
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    int64_t& free_from = free_from_ns_[static_cast<size_t>(tracks[row])];
    for (const TraceSpan* span : rows[row].spans) free_from = std::max(free_from, span->end_ns);
  }
  std::vector<int> result;
  for (const size_t row : row_of) result.push_back(tracks[row]);
  return result;
}

}  // namespace baton
