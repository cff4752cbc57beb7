#include "common/backend/cpu/attention/attention.h"

#include <algorithm>
#include <atomic>

#include "common/backend/cpu/kernels/kernels.h"
#include "common/base/check.h"

namespace baton {
namespace {

using Task = AttentionScratch::Task;

constexpr int kMinTasksPerThread = 4;
constexpr int kTileQueries = 96;  // queries that share the work of widening a segment
constexpr int kMinTileRows = 8;

// The segments of which a sequence's only row sees a key.
struct Segments {
  int first;
  int count;
};
Segments SegmentsOf(const AttentionRule& rule, const BatchSequence& sequence) {
  const int first = rule.FirstKey(sequence.first_position) / kAttentionSegment;
  return {first, sequence.first_position / kAttentionSegment + 1 - first};
}

class Planner {
 public:
  Planner(const AttentionOperands& operands, int threads, AttentionScratch& scratch)
      : operands_(operands), min_tasks_(threads * kMinTasksPerThread), scratch_(scratch) {}

  void Plan(absl::Span<const BatchSequence> sequences) {
    scratch_.tasks.clear();
    scratch_.unmerged.clear();
    int rows = 0;      // rows of all tiles
    int segments = 0;  // segments of all single rows
    for (const BatchSequence& sequence : sequences) {
      if (sequence.row_count == 1) {
        segments += SegmentsOf(operands_.rule, sequence).count;
      } else {
        rows += sequence.row_count;
      }
    }
    // Tiles come first: they are the larger tasks.
    for (const BatchSequence& sequence : sequences) {
      if (sequence.row_count > 1) AddTiles(sequence, TileRows(rows));
    }
    const int kv_heads = operands_.cache.kv_heads;
    const int heads_per_task = segments >= min_tasks_ ? kv_heads : 1;
    size_t lanes = 0;
    for (const BatchSequence& sequence : sequences) {
      for (int head = 0; sequence.row_count == 1 && head < kv_heads; head += heads_per_task) {
        lanes += AddSegments(sequence, head, std::min(heads_per_task, kv_heads - head), lanes);
      }
    }
    if (scratch_.states.size() < lanes) scratch_.states.resize(lanes);
  }

 private:
  // As many rows as make the widening of keys and values worth it, but enough tasks for all
  // threads.
  int TileRows(int rows) const {
    int tile = std::max(kMinTileRows, kTileQueries / operands_.group());
    while (tile > kMinTileRows &&
           (rows + tile - 1) / tile * operands_.cache.kv_heads < min_tasks_) {
      tile /= 2;
    }
    return std::max(tile, kMinTileRows);
  }

  // Adds the last rows first: they see the most keys, and so take the longest.
  void AddTiles(const BatchSequence& sequence, int tile_rows) {
    for (int end = sequence.row_count; end > 0; end -= tile_rows) {
      const int begin = std::max(0, end - tile_rows);
      for (int head = 0; head < operands_.cache.kv_heads; ++head) {
        scratch_.tasks.push_back({.sequence = &sequence,
                                  .first_head = head,
                                  .head_count = 1,
                                  .first_row = sequence.first_row + begin,
                                  .row_count = end - begin,
                                  .segment = 0,
                                  .states = 0,
                                  .counter = 0});
      }
    }
  }

  // Adds the tasks of a single row. Returns how many Lanes their states take.
  size_t AddSegments(const BatchSequence& sequence, int first_head, int head_count, size_t states) {
    const Segments segments = SegmentsOf(operands_.rule, sequence);
    for (int i = 0; i < segments.count; ++i) {
      scratch_.tasks.push_back({.sequence = &sequence,
                                .first_head = first_head,
                                .head_count = head_count,
                                .first_row = sequence.first_row,
                                .row_count = 0,
                                .segment = segments.first + i,
                                .states = states,
                                .counter = scratch_.unmerged.size()});
    }
    scratch_.unmerged.push_back(segments.count);
    return static_cast<size_t>(segments.count) * SegmentStride(operands_, head_count);
  }

 public:
  static size_t SegmentStride(const AttentionOperands& operands, int head_count) {
    return static_cast<size_t>(head_count * operands.group() * operands.state_lanes());
  }

 private:
  const AttentionOperands& operands_;
  const int min_tasks_;
  AttentionScratch& scratch_;
};

Lanes* Grow(std::vector<Lanes>& lanes, size_t size) {
  if (lanes.size() < size) lanes.resize(size);
  return lanes.data();
}

void AttendTile(const CpuKernels& kernels, const AttentionOperands& operands, const Task& task,
                AttentionScratch::Thread& own) {
  const size_t vectors = static_cast<size_t>(operands.cache.head_dim / kLanes);
  const size_t queries = static_cast<size_t>(task.row_count * operands.group());
  kernels.attend_tile({.operands = operands,
                       .sequence = task.sequence,
                       .first_row = task.first_row,
                       .row_count = task.row_count,
                       .kv_head = task.first_head,
                       .keys = Grow(own.keys, kAttentionSegment * vectors),
                       .values = Grow(own.values, kAttentionSegment * vectors),
                       .scores = Grow(own.scores, kQueryBatch * kAttentionSegment / kLanes),
                       .sums = Grow(own.sums, kQueryBatch * vectors),
                       .states = Grow(own.states, queries * (vectors + 1))});
}

void AttendSegment(const CpuKernels& kernels, const AttentionOperands& operands, const Task& task,
                   AttentionScratch& scratch, AttentionScratch::Thread& own) {
  const size_t queries = static_cast<size_t>(task.head_count * operands.group());
  const Segments segments = SegmentsOf(operands.rule, *task.sequence);
  const RowAttentionArgs args = {
      .operands = operands,
      .sequence = task.sequence,
      .first_segment = segments.first,
      .segment = task.segment,
      .first_head = task.first_head,
      .head_count = task.head_count,
      .scores = Grow(own.scores, queries * kAttentionSegment / kLanes),
      .states = scratch.states.data() + task.states,
      .segment_stride = Planner::SegmentStride(operands, task.head_count)};
  kernels.attend_row_segment(args);
  // The last task to end merges all of them, in the order of the segments.
  const std::atomic_ref<int> unmerged(scratch.unmerged[task.counter]);
  if (unmerged.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    kernels.merge_row_segments(args, segments.count);
  }
}

}  // namespace

void AttendRows(const CpuKernels& kernels, ThreadPool& pool,
                absl::Span<const BatchSequence> sequences, const AttentionRule& rule,
                Tensor queries, const KvLayerView& cache, Tensor out, AttentionScratch& scratch) {
  BATON_CHECK(cache.head_dim % kLanes == 0 && cache.head_dim <= kMaxHeadDim,
              "head_dim must be a multiple of kLanes up to kMaxHeadDim", cache.head_dim);
  BATON_CHECK(rule.window >= 0, "the window must not be negative", rule.window);
  const AttentionOperands operands{rule, queries, cache, out};
  Planner(operands, pool.size(), scratch).Plan(sequences);
  scratch.threads.resize(static_cast<size_t>(pool.size()));
  pool.Run(static_cast<int>(scratch.tasks.size()), [&](int thread, int index) {
    const Task& task = scratch.tasks[static_cast<size_t>(index)];
    AttentionScratch::Thread& own = scratch.threads[static_cast<size_t>(thread)];
    if (task.row_count > 0) {
      AttendTile(kernels, operands, task, own);
    } else {
      AttendSegment(kernels, operands, task, scratch, own);
    }
  });
}

}  // namespace baton
