// Causal softmax attention of a pass over the paged KV cache: the device's side of
// Backend::Attention.
//
// f16 and bf16 caches with the usual head dimensions go through the tensor cores. These see queries
// (scaled) and weights rounded to the cache's type and sum in float32. int8, fp8 and int4 caches go
// the same way, their elements, code * scale, rounded to f16 (infinite beyond 65504). Single rows
// are in decode_attention.h, runs of a few rows in run_attention.h, longer ones in
// prefill_attention.h. Every other cache goes through vector_attention.h, in float32.
//
// The bits of a row depend on its own sequence and on whether the pass has more than kMostRunRows
// rows of that sequence: never on the rest of the batch, nor on the grids. The same holds for the absolute
// positions where its keys are cut (attention_plan.h). With AttentionCut::kAlike the bits depend on
// the sequence alone: on the tensor cores all rows go through segment_attention.h, elsewhere splits
// are merged in one order.
//
// A layer's window is no part of the plan, which all layers of a pass share: the kernels cut each
// task and tile to the keys that its rows see, and the blocks of tasks without any leave at once. A
// row's partial results are merged from the first segment on of which it sees a key. A head's sink
// is merged last, as a state with m = sink, l = 1 and o = 0:
//   M' = max(M, m), out = O * (2^(M - M') * (1 / fma(1, 2^(m - M'), L * 2^(M - M'))))
//
// Under a CUDA graph no argument may change from step to step. So everything that changes is in
// device memory at addresses that a graph may keep: the pass's arrays, the counts and lists of
// AttentionWork, partial results and counters. The grids come from max_tasks and max_tiles alone,
// and blocks behind the counts leave at once. A graph for a bucket of batch sizes and of task
// counts takes both from its bucket, and so runs each plan that fits.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/backend/attention_rule.h"
#include "common/backend/cuda/device/operands.h"
#include "common/backend/tensor.h"

namespace baton {

inline constexpr int kMaxVectorHeadDim = 512;

// A row of the pass, or rows [row, row + row_count) of a run, and keys [first_key, end_key) of their
// sequence. No key is later than the last row.
struct DecodeTask {
  int32_t row;
  int32_t row_count;
  int32_t first_key;  // a multiple of kAttentionSegment
  int32_t end_key;
  // Index of the first row's first partial result. A row has one for each kAttentionSegment keys up
  // to those of the last row; those of the next row follow. Negative: this task has all keys of its
  // rows and writes their contexts.
  int32_t first_partial;
};

// Rows [first_row, first_row + row_count) of the pass. All belong to one sequence.
struct PrefillTile {
  int32_t first_row;
  int32_t row_count;
};

// How work is cut and merged: for speed, or so that a row has the same bits alone and among others.
enum class AttentionCut { kByRowCount, kAlike };

// The attention work of a pass, or of a part of it (attention_plan.h), in device memory; borrowed.
struct AttentionWork {
  const int32_t* counts = nullptr;     // [3]: the pass's numbers of tasks, of tiles, and of runs
  const DecodeTask* tasks = nullptr;   // [max_tasks], of single rows
  const DecodeTask* runs = nullptr;    // [max_runs], of runs
  const PrefillTile* tiles = nullptr;  // [max_tiles]
  int max_tasks = 0;  // entries of `tasks`: if they are all of the pass, at least counts[0]
  int max_tiles = 0;  // entries of `tiles`, at least counts[1]
  int max_runs = 0;   // entries of `runs`
  AttentionCut cut = AttentionCut::kByRowCount;
};

// Device memory that all layers share with one another and with other work on the same stream.
struct CudaAttentionScratch {
  float* partials = nullptr;  // partial results, AttentionPartialBytes
  // [rows of the pass, heads]; every launch finds zeros here and leaves zeros.
  int32_t* arrivals = nullptr;
};

// Floats of one partial result: O [head_dim], the maximum, the sum, two of padding.
constexpr int PartialStride(int head_dim) { return head_dim + 4; }

// The bytes of `partials` partial results for every head.
constexpr size_t AttentionPartialBytes(int partials, int heads, int head_dim) {
  return static_cast<size_t>(partials) * static_cast<size_t>(heads) *
         static_cast<size_t>(PartialStride(head_dim)) * sizeof(float);
}

// The most rows of a run: a sequence's rows in a pass that are more than one, as behind guesses.
inline constexpr int kMostRunRows = 16;

// How many rows of a sequence a kernel takes together.
struct AttentionTiles {
  int prefill_rows = 0;  // rows of a prefill tile; 0: every row is a task
  int run_rows = 0;      // rows of a run that are one task; 0: runs are tiles
  friend bool operator==(const AttentionTiles&, const AttentionTiles&) = default;
};
// Those for queries [rows, heads * head_dim] and this cache; PlanAttention needs them.
AttentionTiles TilesFor(int heads, const KvLayerView& cache);

// See Backend::Attention. `queries`, `out` [pass.rows, heads * head_dim], at multiples of 16 bytes.
// Asynchronous; all memory is borrowed until the stream has come past this launch. REQUIRES: the
// cache holds keys and values of every position up to the rows' own; `parts` were planned for this
// pass with TilesFor(heads, cache); head_dim is a multiple of 16, at most kMaxVectorHeadDim.
void LaunchAttention(const CudaPass& pass, std::span<const AttentionWork> parts,
                     const AttentionRule& rule, Tensor queries, const KvLayerView& cache,
                     Tensor out, const CudaAttentionScratch& scratch, cudaStream_t stream);

}  // namespace baton
