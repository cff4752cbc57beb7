// Causal softmax attention of a pass over the paged cache: what Backend::Attention is on the
// device.
//
// f16 and bf16 caches with the usual head dimensions go through the tensor cores, which see queries
// (scaled) and weights rounded to the cache's type and sum in float32; int8 and fp8 caches as if
// their elements, code * scale, were an f16 cache's (beyond 65504 infinite, as there). Single rows
// are in decode_attention.h, longer runs of rows in prefill_attention.h. Everything else goes
// through vector_attention.h, in float32.
//
// What a row comes to depends on its own sequence and on how many rows of it the pass has, one or
// more: never on the rest of the batch, nor on the grids. So does the cut of its keys, at absolute
// positions (attention_plan.h). With AttentionCut::kAlike it depends on the sequence alone: on the
// tensor cores all rows go through segment_attention.h, elsewhere splits are merged in one order.
//
// Under a CUDA graph nothing that changes from step to step may be an argument. All of it is in
// device memory whose addresses a graph may keep: the pass's arrays, the counts and lists of
// AttentionWork, partial results and counters. The grids come from max_tasks and max_tiles alone,
// and blocks behind the counts leave at once: a graph for a bucket of batch sizes and of tasks has
// these of its bucket, and runs each plan that fits.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "common/backend/cuda/operands.h"
#include "common/backend/tensor.h"

namespace baton {

inline constexpr int kAttentionPage = 16;    // keys: the rows of a page are in one block
inline constexpr int kAttentionSplit = 256;  // keys
inline constexpr int kMaxVectorHeadDim = 512;

// A row of the pass and keys [first_key, end_key) of its sequence; no key is later than the row.
struct DecodeTask {
  int32_t row;
  int32_t first_key;  // a multiple of kAttentionSplit
  int32_t end_key;
  // The row's partial results follow one another from here, one for each kAttentionSplit keys.
  // Negative: this task has all keys of the row.
  int32_t first_partial;
};

// Rows [first_row, first_row + row_count) of the pass, of one sequence.
struct PrefillTile {
  int32_t first_row;
  int32_t row_count;
};

// Whether work is cut and merged for speed, or so that a row has the same bits alone and in a run.
enum class AttentionCut { kByRowCount, kAlike };

// The work of a pass, in device memory; borrowed.
struct AttentionWork {
  const int32_t* counts = nullptr;     // [2]: how many tasks and tiles there are
  const DecodeTask* tasks = nullptr;   // [max_tasks]
  const PrefillTile* tiles = nullptr;  // [max_tiles]
  int max_tasks = 0;                   // at least the counts
  int max_tiles = 0;
  AttentionCut cut = AttentionCut::kByRowCount;
};

// Device memory that all layers share, and whatever else runs on the same stream.
struct CudaAttentionScratch {
  float* partials = nullptr;  // AttentionPartialBytes
  int32_t* arrivals =
      nullptr;  // [rows of the pass, heads]: zero before the first launch and after each
};

// O [head_dim], the maximum, the sum, two of padding.
constexpr int PartialStride(int head_dim) { return head_dim + 4; }

// Of `partials` partial results of every head.
constexpr size_t AttentionPartialBytes(int partials, int heads, int head_dim) {
  return static_cast<size_t>(partials) * static_cast<size_t>(heads) *
         static_cast<size_t>(PartialStride(head_dim)) * sizeof(float);
}

// How many rows a prefill tile has for queries [rows, heads * head_dim] and this cache; 0 where
// there are no tiles, and every row is a task. What the plan is made with.
int PrefillTileRows(int heads, const KvLayerView& cache);

// See Backend::Attention. `queries`, `out` [pass.rows, heads * head_dim], at multiples of 16 bytes.
// Asynchronous; everything is borrowed until the stream has come past it. REQUIRES: the keys and
// values of every position up to the rows' own are in the cache; work planned for this pass with
// PrefillTileRows(heads, cache); head_dim a multiple of 16, at most kMaxVectorHeadDim.
void LaunchAttention(const CudaPass& pass, const AttentionWork& work, Tensor queries,
                     const KvLayerView& cache, Tensor out, const CudaAttentionScratch& scratch,
                     cudaStream_t stream);

}  // namespace baton
