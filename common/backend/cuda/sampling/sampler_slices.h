// The sampler's first two kernels, for one slice of a row.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/sampling/sampler_block.h"
#include "common/backend/cuda/sampling/sampler_row.h"
#include "ptx.h"

namespace baton {

// Applies bias, what min_tokens masks, and penalties to a slice's tokens, in this order. A list
// names a token once, or does the same to it each time.
__device__ inline void EditSlice(const SamplerBatch& batch, const Row& row, const Range& slice) {
  const SamplerRow& params = row.params;
  float* adjusted = row.scratch.adjusted;
  for (int i = Thread(); i < params.bias_count; i += Threads()) {
    const LogitBias entry = batch.biases[params.first_bias + i];
    if (!slice.Holds(entry.token_id)) continue;
    adjusted[entry.token_id] = ClampLogit(adjusted[entry.token_id] + entry.bias);
  }
  __syncthreads();
  if (row.masks_stops) {
    for (int i = Thread(); i < row.end_id_count + params.stop_id_count; i += Threads()) {
      const int token_id = i < row.end_id_count
                               ? batch.end_ids[i]
                               : batch.stop_ids[params.first_stop_id + i - row.end_id_count];
      // An end may be a stop too.
      if (slice.Holds(token_id)) StoreBesideOthers(adjusted + token_id, kMaskedLogit);
    }
    __syncthreads();
  }
  if (params.counts_slot < 0) return;
  const Penalties penalties = {params.presence_penalty, params.frequency_penalty,
                               params.repetition_penalty};
  const TokenCount* counts = row.CountsOf(batch);
  const int count_size = batch.count_sizes[params.counts_slot];
  for (int i = Thread(); i < count_size; i += Threads()) {
    const TokenCount entry = counts[i];
    if (!slice.Holds(entry.token_id)) continue;
    adjusted[entry.token_id] =
        PenalizedLogit(adjusted[entry.token_id], entry.output_count, penalties);
  }
  __syncthreads();
}

// Finds the first raw token of a slice; 0 if a logit is not finite. Copies the slice if the row
// is edited, with the row's mask.
__device__ inline TokenOrder ScanRawSlice(const Row& row, const Range& slice) {
  TokenOrder first = kAfterAll;
  ForEachValue(row.logits, slice.begin, slice.end, Thread(), Threads(),
               [&](int token_id, float logit, bool inside) {
                 if (!inside) return;
                 first = Min()(first, IsFinite(logit) ? OrderOf(logit, token_id) : 0);
                 if (!row.edited) return;
                 const bool masked = row.mask != nullptr && !MaskAllows(row.mask, token_id);
                 row.scratch.adjusted[token_id] = masked ? kMaskedLogit : logit;
               });
  return first;
}

// Sets extremes.first and extremes.last.
__device__ inline void ScanSlice(const Row& row, const Range& slice, Extremes& extremes) {
  ForEachValue(row.adjusted, slice.begin, slice.end, Thread(), Threads(),
               [&](int token_id, float logit, bool inside) {
                 if (!inside) return;
                 const TokenOrder order = OrderOf(logit, token_id);
                 extremes.first = Min()(extremes.first, order);
                 if (logit != kMaskedLogit) extremes.last = Max()(extremes.last, order);
               });
}

// Shared memory of a block that weighs a slice.
struct WeighShared {
  uint64_t warps[kWarpLanes];
  unsigned int bin_tokens[kWeightBins];
  SharedSums<kWeightBins> bin_weights;
};

// Adds the weights of a slice to the row's bins.
__device__ inline void FillBins(const Row& row, const Range& slice, const Weigher& weigher,
                                const WeightBins& bins, WeighShared& shared) {
  for (int bin = Thread(); bin < kWeightBins; bin += Threads()) {
    shared.bin_tokens[bin] = 0;
    shared.bin_weights.Clear(bin);
  }
  __syncthreads();
  ForEachValue(row.adjusted, slice.begin, slice.end, Thread(), Threads(),
               [&](int, float logit, bool inside) {
                 const uint64_t weight = inside ? weigher(logit) : 0;
                 if (weight == 0) return;
                 const int bin = bins(logit);
                 atomicAdd(&shared.bin_tokens[bin], 1u);
                 shared.bin_weights.Add(bin, weight);
               });
  __syncthreads();
  for (int bin = Thread(); bin < kWeightBins; bin += Threads()) {
    if (shared.bin_tokens[bin] == 0) continue;
    atomicAdd(&row.scratch.bin_tokens[bin], shared.bin_tokens[bin]);
    atomicAdd(&row.scratch.bin_weights[bin],
              static_cast<unsigned long long>(shared.bin_weights.At(bin)));
  }
}

// This thread's share of the weight of a slice of `values`.
__device__ inline uint64_t WeighSlice(const float* values, const Range& slice,
                                      const Weigher& weigher) {
  uint64_t sum = 0;
  ForEachValue(values, slice.begin, slice.end, Thread(), Threads(),
               [&](int, float logit, bool inside) { sum += inside ? weigher(logit) : 0; });
  return sum;
}

// Finds the first `count` raw tokens of a slice, in TokenOrder; kAfterAll if it has fewer.
__device__ inline void FindTops(const Row& row, const Range& slice, int count, TokenOrder* tops,
                                uint64_t* warps) {
  const auto next_after = [&](TokenOrder order) {
    TokenOrder next = kAfterAll;
    for (int id = slice.begin + Thread(); id < slice.end; id += Threads()) {
      const TokenOrder candidate = OrderOf(row.logits[id], id);
      if (candidate > order) next = Min()(next, candidate);
    }
    return next;
  };
  TokenOrder mine = next_after(0);
  for (int i = 0; i < count; ++i) {
    const TokenOrder first = BlockReduce(mine, Min(), warps);
    if (Thread() == 0) tops[i] = first;
    if (mine == first && first != kAfterAll) mine = next_after(first);
  }
}

}  // namespace baton
