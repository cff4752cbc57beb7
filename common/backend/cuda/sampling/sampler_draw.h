// The sampler's last kernel, for one row: the draw, the logprobs and the counts.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/sampling/sampler_block.h"
#include "common/backend/cuda/sampling/sampler_cut.h"
#include "common/backend/cuda/sampling/sampler_row.h"

namespace baton {

inline constexpr int kWalkPieces = 32;
static_assert(kWalkPieces <= kMaxSlices);

// Shared memory of a block that samples a row's token.
struct SampleShared {
  CutShared cut;
  uint64_t sums[kMaxSlices];  // weights of the pieces that Draw looks through
  unsigned int found;
};

// The weights of the tokens up to `last` in TokenOrder; 0 for the others.
struct KeptWeigher {
  Weigher weigher;
  TokenOrder last = kAfterAll;

  __device__ uint64_t operator()(int token_id, float logit) const {
    return OrderOf(logit, token_id) <= last ? weigher(logit) : 0;
  }
};

// Cuts `range` into pieces of `length` tokens and leaves the weight of each in `sums`. One warp
// weighs one piece.
__device__ inline void WeighPieces(const Row& row, const Range& range, int length,
                                   const KeptWeigher& kept, uint64_t* sums) {
  const int pieces = (range.end - range.begin + length - 1) / length;
  for (int piece = Warp(); piece < pieces; piece += Warps()) {
    const int begin = range.begin + piece * length;
    const int end = begin + length < range.end ? begin + length : range.end;
    uint64_t sum = 0;
    ForEachValue(
        row.adjusted, begin, end, Lane(), kWarpLanes,
        [&](int token_id, float logit, bool inside) { sum += inside ? kept(token_id, logit) : 0; });
    sum = WarpReduce(sum, Add());
    if (Lane() == 0) sums[piece] = sum;
  }
}

// Draws the first token, in ascending id, at which the sum of the weights up to and with its own
// exceeds the row's draw point: first its slice, then a piece of the slice, and so on down to one
// token.
__device__ inline int Draw(const Row& row, const Slicing& slicing, const KeptWeigher& kept,
                           uint64_t* sums) {
  Range range = {0, row.vocab_size};
  int length = slicing.tokens;
  if (row.cut()) {
    WeighPieces(row, range, length, kept, sums);
  } else {
    for (int slice = Thread(); slice < slicing.count; slice += Threads()) {
      sums[slice] = row.scratch.weights[slice].weight;
    }
  }
  __syncthreads();
  uint64_t total = 0;
  for (int slice = 0; slice < slicing.count; ++slice) total += sums[slice];
  const SamplerRow& params = row.params;
  uint64_t rest = DrawPoint(params.seed, params.choice, params.output_index, total);
  while (true) {
    int piece = 0;
    for (; rest >= sums[piece]; ++piece) rest -= sums[piece];
    range.begin += piece * length;
    if (range.begin + length < range.end) range.end = range.begin + length;
    if (range.end - range.begin == 1) return range.begin;
    length = (range.end - range.begin + kWalkPieces - 1) / kWalkPieces;
    __syncthreads();  // all threads have read the sums
    WeighPieces(row, range, length, kept, sums);
    __syncthreads();
  }
}

__device__ inline int DrawToken(const Row& row, const Slicing& slicing, const Extremes& extremes,
                                SampleShared& shared) {
  KeptWeigher kept = {row.MakeWeigher(extremes)};
  if (row.cut()) kept.last = CutFinder(row, extremes, shared.cut).Find();
  return Draw(row, slicing, kept, shared.sums);
}

// Writes the log probabilities of the sampled token and of the top tokens, from the raw logits.
__device__ inline void WriteLogprobs(const Row& row, const Slicing& slicing,
                                     const Extremes& extremes, int token_id, uint64_t* warps,
                                     SamplerLogprobs& out) {
  uint64_t sum = 0;
  for (int slice = 0; slice < slicing.count; ++slice) {
    sum += row.scratch.weights[slice].raw_weight;
  }
  const float max_logit = row.logits[TokenOf(extremes.raw_first)];
  const float log_sum = LogOfWeights(static_cast<int64_t>(sum));
  const auto logprob = [&](int id) { return (row.logits[id] - max_logit) - log_sum; };
  const int top_logprobs = row.params.top_logprobs;
  const int top_count = top_logprobs < row.vocab_size ? top_logprobs : row.vocab_size;
  if (Thread() == 0) {
    out.logprob = logprob(token_id);
    out.top_count = top_count;
  }
  TokenOrder before = 0;
  for (int i = 0; i < top_count; ++i) {
    TokenOrder next = kAfterAll;
    for (int j = Thread(); j < slicing.count * top_logprobs; j += Threads()) {
      const int slice = j / top_logprobs;
      const TokenOrder top = row.scratch.tops[slice * kMaxTopLogprobs + (j - slice * top_logprobs)];
      if (top > before) next = Min()(next, top);
    }
    before = BlockReduce(next, Min(), warps);
    if (Thread() == 0) {
      out.top_token_ids[i] = TokenOf(before);
      out.top_logprobs[i] = logprob(TokenOf(before));
    }
  }
}

// Adds the sampled token to the row's counts. False if the slot is full.
__device__ inline bool CountToken(const SamplerBatch& batch, const Row& row, int token_id,
                                  SampleShared& shared) {
  TokenCount* counts = row.CountsOf(batch);
  int32_t& size = batch.count_sizes[row.params.counts_slot];
  const int count_size = size;
  if (Thread() == 0) shared.found = 0;
  __syncthreads();  // shared.found is set, and all threads have read the size
  for (int i = Thread(); i < count_size; i += Threads()) {
    if (counts[i].token_id != token_id) continue;
    ++counts[i].output_count;
    shared.found = 1;
  }
  __syncthreads();
  if (shared.found != 0) return true;
  if (count_size == batch.counts_capacity) return false;
  if (Thread() == 0) {
    counts[count_size] = {token_id, 1};
    size = count_size + 1;
  }
  return true;
}

}  // namespace baton
