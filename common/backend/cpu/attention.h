// Causal softmax attention over the paged cache, the same for prefill and decode rows.
//
// Keys are cut at absolute multiples of 256. Within a segment, over the keys up to the query's own
// position:
//   score = (query . key) * (1 / sqrt(head_dim)), the product in 16 lanes (lanes.h)
//   m = max score;  p = exp(score - m);  l = sum of p in lanes of position mod 16, folded by the
//   tree o = sum of p * value, by fma, positions ascending from +0
// Segments are merged ascending: with M' = max(M, m), L = fma(l, exp(m - M'), L * exp(M - M')), O
// likewise; then out = O / L. Later keys are left out by the loops' bounds.
#pragma once

#include <vector>

#include "common/backend/backend.h"
#include "common/backend/cpu/lanes.h"
#include "common/backend/cpu/thread_pool.h"

namespace baton {

struct CpuKernels;

// Head dimensions are multiples of 16 up to this.
inline constexpr int kMaxHeadDim = 512;

inline constexpr int kSegment = 256;  // keys
// Floats from one dimension's keys to the next one's: at 256 they would all fall into the same few
// sets of the cache.
inline constexpr int kKeyStride = kSegment + kLanes;
inline constexpr int kPage = 16;   // tokens: the rows of a page are in one block
inline constexpr int kSlice = 64;  // columns of V that are summed together

// The rows of one sequence that a task serves, for one KV head.
struct AttentionTask {
  const PassSequence* sequence;
  int first_row;
  int row_count;
  int kv_head;
};

// What a kernel computes, with its thread's scratch memory.
struct AttentionArgs {
  AttentionTask task;
  Tensor queries;
  KvLayerView cache;
  Tensor out;
  float* keys;    // [head_dim, kKeyStride]
  float* values;  // [kSegment, head_dim]
  float* states;  // [queries, head_dim + 2]
};

// Scratch memory of one thread; grows and is used again.
struct AttentionScratch {
  std::vector<float> keys;    // [head_dim, 256 and padding]
  std::vector<float> values;  // [256, head_dim]
  std::vector<float> states;  // [queries of a task, head_dim + 2]: O, M, L
};

// See Backend::Attention. `scratch` [threads of the pool].
void AttendRows(const CpuKernels& kernels, ThreadPool& pool, const Pass& pass, Tensor queries,
                const KvLayerView& cache, Tensor out, std::vector<AttentionScratch>& scratch);

}  // namespace baton
