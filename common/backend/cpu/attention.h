// Causal softmax attention over the paged cache, the same for prefill and decode rows.
//
// Keys are cut at absolute multiples of 256. Within a segment, over the keys up to the query's own
// position:
//   score = (query . key) * (1 / sqrt(head_dim)), the product in 16 lanes (lanes.h)
//   m = max score;  p = exp(score - m);  l = sum of p in lanes of position mod 16, folded by the
//   tree;  o = sum of p * value, by fma, positions ascending from +0
// Segments are merged ascending: with M' = max(M, m), L = fma(l, exp(m - M'), L * exp(M - M')), O
// likewise; then out = O / L. Later keys are left out by the loops' bounds.
//
// A sequence with one row is cut into tasks of a segment each, which read the cache as it lies; the
// last of them to end merges the segments (attention_row_kernel.h). More rows are cut into tiles,
// which share keys and values that are widened, the keys transposed, into the thread's own memory
// (attention_tile_kernel.h).
#pragma once

#include <vector>

#include "common/backend/backend.h"
#include "common/backend/cpu/lanes.h"
#include "common/backend/cpu/thread_pool.h"

namespace baton {

struct CpuKernels;

// Head dimensions are multiples of 16 up to this.
inline constexpr int kMaxHeadDim = 512;

inline constexpr int kSegment = 256;    // keys
inline constexpr int kPage = 16;        // keys: the rows of a page are in one block
inline constexpr int kQueryBatch = 24;  // queries of a tile whose scores fit the first cache

struct AttentionOperands {
  Tensor queries;
  KvLayerView cache;
  Tensor out;

  int group() const { return queries.columns / cache.head_dim / cache.kv_heads; }
  // Lanes of a query's state: O [head_dim], then M and L in the first two of the last 16.
  int state_lanes() const { return cache.head_dim / kLanes + 1; }
};

// One segment of the keys of a sequence's only row, for KV heads [first_head, first_head +
// head_count) and the queries that read them.
struct RowAttentionArgs {
  AttentionOperands operands;
  const PassSequence* sequence;
  int segment;
  int first_head;
  int head_count;
  Lanes* scores;  // [queries, kSegment / kLanes]
  // [queries, state_lanes] of segment 0; the next segment's lie `segment_stride` further.
  Lanes* states;
  size_t segment_stride;
};

// Rows [first_row, first_row + row_count) of a sequence, for one KV head.
struct TileAttentionArgs {
  AttentionOperands operands;
  const PassSequence* sequence;
  int first_row;
  int row_count;
  int kv_head;
  Lanes* keys;    // [kSegment, head_dim], in panels: see AttentionTileKernel
  Lanes* values;  // [kSegment, head_dim]
  Lanes* scores;  // [kQueryBatch, kSegment / kLanes]
  Lanes* sums;    // [kQueryBatch, head_dim]
  Lanes* states;  // [row_count * group, state_lanes]
};

// Memory that grows and is used again.
struct AttentionScratch {
  struct Task {
    const PassSequence* sequence;
    int first_head;
    int head_count;
    int first_row;  // of a tile
    int row_count;  // of a tile; 0: the task is a segment
    int segment;
    size_t states;   // of a segment's task: where its row's begin in `states`
    size_t counter;  // the same in `unmerged`
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
  std::vector<Lanes> states;  // of single rows, [sequence][head range][segment][query, state_lanes]
  std::vector<int> unmerged;  // tasks of a row and head range that have not ended
};

// See Backend::Attention.
void AttendRows(const CpuKernels& kernels, ThreadPool& pool, const Pass& pass, Tensor queries,
                const KvLayerView& cache, Tensor out, AttentionScratch& scratch);

}  // namespace baton
