#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/sampling/sampler.h"
#include "common/backend/cuda/sampling/sampler_block.h"
#include "common/backend/cuda/sampling/sampler_draw.h"
#include "common/backend/cuda/sampling/sampler_row.h"
#include "common/backend/cuda/sampling/sampler_slices.h"
#include "common/base/check.h"
#include "ptx.h"

namespace baton {

// One block per slice and row: applies the row's edits to the slice and finds its extremes.
static __global__ void EditLogits(SamplerBatch batch, Slicing slicing) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  auto* warps = reinterpret_cast<uint64_t*>(shared_memory);
  const Row row(batch, static_cast<int>(blockIdx.y));
  const int slice = static_cast<int>(blockIdx.x);
  const Range range = SliceRange(slicing, slice, row.vocab_size);

  Extremes extremes;
  extremes.raw_first = ScanRawSlice(row, range);
  // tests/planted_bugs: kernel_slice_before_it_is_complete
  __syncthreads();  // the copy of the slice is complete
  if (row.edited) EditSlice(batch, row, range);
  ScanSlice(row, range, extremes);
  extremes.raw_first = BlockReduce(extremes.raw_first, Min(), warps);
  extremes.first = BlockReduce(extremes.first, Min(), warps);
  extremes.last = BlockReduce(extremes.last, Max(), warps);
  if (Thread() == 0) row.scratch.extremes[slice] = extremes;
  // The next kernel adds to these bins.
  for (int bin = slice * Threads() + Thread(); bin < kWeightBins;
       bin += slicing.count * Threads()) {
    row.scratch.bin_tokens[bin] = 0;
    row.scratch.bin_weights[bin] = 0;
  }
}

// One block per slice and row: computes its weights, and what the logprobs need of it.
static __global__ void WeighLogits(SamplerBatch batch, Slicing slicing) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  auto& shared = *reinterpret_cast<WeighShared*>(shared_memory);
  const Row row(batch, static_cast<int>(blockIdx.y));
  const Extremes extremes = row.FindExtremes(slicing);
  if (row.ErrorOf(extremes) != SamplerError::kNone) return;
  const int slice = static_cast<int>(blockIdx.x);
  const Range range = SliceRange(slicing, slice, row.vocab_size);

  SliceWeights weights;
  if (row.cut()) {
    FillBins(row, range, row.MakeWeigher(extremes), row.MakeBins(extremes), shared);
  } else if (!row.greedy()) {
    weights.weight = BlockReduce(WeighSlice(row.adjusted, range, row.MakeWeigher(extremes)), Add(),
                                 shared.warps);
  }
  const int top_logprobs = row.params.top_logprobs;
  if (top_logprobs >= 0) {
    weights.raw_weight = BlockReduce(WeighSlice(row.logits, range, row.MakeRawWeigher(extremes)),
                                     Add(), shared.warps);
    FindTops(row, range, top_logprobs, row.scratch.tops + slice * kMaxTopLogprobs, shared.warps);
  }
  if (Thread() == 0) row.scratch.weights[slice] = weights;
}

// One block per row: samples its token, writes its logprobs and counts, and goes on to its next output.
static __global__ void __launch_bounds__(1024) SampleTokens(SamplerBatch batch, Slicing slicing) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  auto& shared = *reinterpret_cast<SampleShared*>(shared_memory);
  const int index = static_cast<int>(blockIdx.x);
  const Row row(batch, index);
  const Extremes extremes = row.FindExtremes(slicing);

  int token_id = 0;
  SamplerError error = row.ErrorOf(extremes);
  if (error == SamplerError::kNone) {
    if (row.params.scored_token >= 0) {
      token_id = row.params.scored_token;
    } else {
      token_id = row.greedy() ? TokenOf(extremes.first) : DrawToken(row, slicing, extremes, shared);
    }
    if (row.params.top_logprobs >= 0) {
      WriteLogprobs(row, slicing, extremes, token_id, shared.cut.warps, batch.logprobs[index]);
    }
    if (row.params.counts_slot >= 0 && !CountToken(batch, row, token_id, shared)) {
      error = SamplerError::kCountsFull;
    }
  }
  __syncthreads();  // no thread reads the row's parameters any more
  if (Thread() == 0) {
    batch.token_ids[index] = token_id;
    batch.errors[index] = error;
    // tests/planted_bugs: kernel_next_output_forgotten
    ++batch.params[index].output_index;
  }
}

namespace {

Slicing CutVocabulary(int vocab_size, int slice_tokens) {
  const int least = (vocab_size + kMaxSlices - 1) / kMaxSlices;
  const int tokens = slice_tokens > least ? slice_tokens : least;
  return {tokens, (vocab_size + tokens - 1) / tokens};
}

}  // namespace

size_t SamplerScratchBytes(int rows, int vocab_size) {
  return static_cast<size_t>(rows) * RowScratchBytes(vocab_size);
}

void LaunchSample(const SamplerBatch& batch, const SamplerShape& shape, cudaStream_t stream) {
  BATON_CHECK(batch.rows > 0, "a launch without rows");
  BATON_CHECK(batch.vocab_size > 0 && batch.vocab_size <= kMaxSampledVocab,
              "the sums of weights would overflow");
  const Slicing slicing = CutVocabulary(batch.vocab_size, shape.slice_tokens);
  const dim3 slices(static_cast<unsigned>(slicing.count), static_cast<unsigned>(batch.rows));
  const dim3 slice_block(static_cast<unsigned>(shape.slice_threads));
  Launch(EditLogits,
         {.grid = slices,
          .block = slice_block,
          .shared_bytes = kWarpLanes * sizeof(uint64_t),
          .stream = stream,
          .may_start_early = true},
         batch, slicing);
  Launch(WeighLogits,
         {.grid = slices,
          .block = slice_block,
          .shared_bytes = sizeof(WeighShared),
          .stream = stream,
          .may_start_early = true},
         batch, slicing);
  Launch(SampleTokens,
         {.grid = dim3(static_cast<unsigned>(batch.rows)),
          .block = dim3(static_cast<unsigned>(shape.row_threads)),
          .shared_bytes = sizeof(SampleShared),
          .stream = stream,
          .may_start_early = true},
         batch, slicing);
}

}  // namespace baton
