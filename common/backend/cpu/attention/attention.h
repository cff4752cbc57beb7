// Causal softmax attention over the paged KV cache, with the same bits for prefill and decode rows.
//
// The query at position i sees key j where 0 <= i - j, and i - j < window if there is a window.
// Keys are cut at absolute multiples of 256 into segments. Within a segment, over the keys that the
// query sees:
//   score = (query . key) * scale, the product in 16 lanes (lanes.h)
//   m = max score;  p = exp(score - m)
//   l = sum of p in lanes of position mod 16, each ascending from +0, folded by the tree
//   o = sum of p * value, by fma, positions ascending from +0
// The query's first segment gives M, L and O; the later ones are merged ascending. With
// M' = max(M, m):
//   L = fma(l, exp(m - M'), L * exp(M - M'))
//   O = fma(o, exp(m - M'), O * exp(M - M'))
// A head's sink is merged last, as a segment with m = sink, l = 1 and o = 0. At the end out = O / L.
// The loops' bounds leave out the keys that a query does not see: neither these nor how many they
// are can change a bit.
//
// A sequence with one row is cut into tasks of one segment each, which read the cache as it lies;
// the last task to end merges the segments (attention_row_kernel.h). A sequence with more rows is
// cut into tiles. The queries of a tile share its keys and values, which are widened into the
// thread's own memory, the keys transposed (attention_tile_kernel.h). Neither reads a page of 16
// keys that none of its queries sees.
#pragma once

#include <vector>

#include "common/backend/backend.h"
#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cpu/simd/lanes.h"

namespace baton {

struct CpuKernels;

// A head dimension is a multiple of 16, at most this.
inline constexpr int kMaxHeadDim = 512;

inline constexpr int kQueryBatch = 24;  // queries of a tile whose scores fit into the first cache

struct AttentionOperands {
  AttentionRule rule;
  // `queries` and `out` are [rows, heads * head_dim].
  Tensor queries;
  KvLayerView cache;
  Tensor out;

  // Query heads that share a KV head.
  int group() const { return queries.columns / cache.head_dim / cache.kv_heads; }
  // Lanes of a query's state: O [head_dim], then one Lanes whose first two are M and L.
  int state_lanes() const { return cache.head_dim / kLanes + 1; }
  // The sink of query head `head`, or null.
  const float* Sink(int head) const { return rule.sinks == nullptr ? nullptr : rule.sinks + head; }
};

// One segment of the keys of a sequence's only row, for KV heads [first_head, first_head +
// head_count) and the queries that read them. All memory is borrowed.
struct RowAttentionArgs {
  AttentionOperands operands;
  const BatchSequence* sequence;
  int first_segment;  // the first segment of which the row sees a key
  int segment;
  int first_head;
  int head_count;
  Lanes* scores;  // [queries, kAttentionSegment / kLanes]
  // [queries, state_lanes] of the first segment; those of the next lie `segment_stride` further.
  Lanes* states;
  size_t segment_stride;
};

// Rows [first_row, first_row + row_count) of a sequence, for one KV head. All memory is borrowed.
struct TileAttentionArgs {
  AttentionOperands operands;
  const BatchSequence* sequence;
  int first_row;
  int row_count;
  int kv_head;
  Lanes* keys;    // [kAttentionSegment, head_dim], in panels (AttentionTileKernel)
  Lanes* values;  // [kAttentionSegment, head_dim]
  Lanes* scores;  // [kQueryBatch, kAttentionSegment / kLanes]
  Lanes* sums;    // [kQueryBatch, head_dim]
  Lanes* states;  // [row_count * group, state_lanes]
};

// Memory of AttendRows, which grows and is used again.
struct AttentionScratch {
  struct Task {
    const BatchSequence* sequence;
    int first_head;
    int head_count;
    int first_row;   // first row of a tile
    int row_count;   // rows of a tile; 0: the task is a segment
    int segment;     // index of the segment
    size_t states;   // a segment's task: index in `states` of the first state of its row
    size_t counter;  // a segment's task: index in `unmerged` of its row's counter
  };
  struct Thread {
    std::vector<Lanes> keys;
    std::vector<Lanes> values;
    std::vector<Lanes> scores;
    std::vector<Lanes> sums;
    std::vector<Lanes> states;
  };
  std::vector<Task> tasks;
  std::vector<Thread> threads;
  // States of single rows, [sequence][head range][segment][query, state_lanes].
  std::vector<Lanes> states;
  std::vector<int> unmerged;  // tasks of a row and head range that have not ended
};

// Runs Backend::Attention on the pool's threads. `queries`, `out` [rows, heads * head_dim].
void AttendRows(const CpuKernels& kernels, ThreadPool& pool,
                absl::Span<const BatchSequence> sequences, const AttentionRule& rule,
                Tensor queries, const KvLayerView& cache, Tensor out, AttentionScratch& scratch);

}  // namespace baton
