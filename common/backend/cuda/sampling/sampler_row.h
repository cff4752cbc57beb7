// One row of logits as the sampler's kernels see it: its slices, the order of its tokens, their
// weights, and the scratch memory in which a kernel leaves results for the next one.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/backend/cuda/sampling/sampler.h"
#include "common/backend/cuda/sampling/sampler_block.h"
#include "common/backend/sampling_math.h"
#include "common/base/token_mask.h"

namespace baton {

inline constexpr int kMaxSlices = 64;
inline constexpr int kWeightBins = 1024;

// A token's place in a row. Smaller comes first: likelier tokens, then ascending ids. 0 stands
// before all tokens and kAfterAll behind them.
using TokenOrder = uint64_t;
inline constexpr TokenOrder kAfterAll = ~uint64_t{0};

__device__ inline TokenOrder OrderOf(float logit, int token_id) {
  const uint32_t bits = logit == 0 ? 0 : std::bit_cast<uint32_t>(logit);  // -0 is as likely as 0
  const uint32_t descending = bits >> 31 != 0 ? bits : ~bits & 0x7fffffff;
  return uint64_t{descending} << 32 | static_cast<uint32_t>(token_id);
}
__device__ inline int TokenOf(TokenOrder order) { return static_cast<int>(order & 0xffffffff); }
__device__ inline float LogitOf(TokenOrder order) {
  const auto descending = static_cast<uint32_t>(order >> 32);
  return std::bit_cast<float>(descending >> 31 != 0 ? descending : ~descending & 0x7fffffff);
}
__device__ inline bool IsFinite(float logit) {
  return (std::bit_cast<uint32_t>(logit) & 0x7fffffff) < 0x7f800000;
}

// The weights of tokens before top_k and top_p: probabilities in fixed point.
struct Weigher {
  float max_logit = 0;
  float temperature = 1;
  int64_t min_weight = 0;

  __device__ uint64_t operator()(float logit) const {
    const auto weight = static_cast<int64_t>(ScaledWeight(logit, max_logit, temperature));
    return weight >= min_weight ? static_cast<uint64_t>(weight) : 0;
  }
};

// Cuts the tokens that have weight into bins: a token in an earlier bin is likelier. No result
// depends on how even the bins are, only how much work is left to the last kernel.
struct WeightBins {
  float max_logit = 0;
  float per_logit = 0;

  __device__ WeightBins(float max_logit_, float least_logit, float temperature)
      : max_logit(max_logit_) {
    const float lightest = 28 * temperature;  // at this distance exp(-28) is no weight any more
    const float range = max_logit - least_logit;
    per_logit = kWeightBins / (range < lightest ? range : lightest);
  }
  __device__ int operator()(float logit) const {
    const float bin = (max_logit - logit) * per_logit;
    return bin < kWeightBins - 1 ? static_cast<int>(bin) : kWeightBins - 1;  // NaN: the last bin
  }
};

// The first and last tokens of a slice, in TokenOrder; over all slices, those of the row. Raw means
// before bias, masks and penalties.
struct Extremes {
  TokenOrder raw_first = kAfterAll;  // first token of the raw logits; 0: a logit is not finite
  TokenOrder first = kAfterAll;      // first token after the edits
  TokenOrder last = 0;               // last token after the edits that is not masked
};

struct SliceWeights {
  uint64_t weight = 0;
  uint64_t raw_weight = 0;  // weight of the raw logits at temperature 1
};

// Scratch memory of one row. Only tokens that have weight are in the bins.
struct RowScratch {
  Extremes* extremes = nullptr;               // [kMaxSlices]
  SliceWeights* weights = nullptr;            // [kMaxSlices]
  TokenOrder* tops = nullptr;                 // [kMaxSlices, kMaxTopLogprobs]; raw logits
  unsigned long long* bin_weights = nullptr;  // [kWeightBins]
  unsigned int* bin_tokens = nullptr;         // [kWeightBins]
  float* adjusted = nullptr;                  // [vocab_size]; the edited logits
};

constexpr size_t RowScratchBytes(int vocab_size) {
  constexpr size_t kPerSlice =
      sizeof(Extremes) + sizeof(SliceWeights) + kMaxTopLogprobs * sizeof(TokenOrder);
  constexpr size_t kPerBin = sizeof(unsigned long long) + sizeof(unsigned int);
  const size_t adjusted = static_cast<size_t>(vocab_size) * sizeof(float);
  return kMaxSlices * kPerSlice + kWeightBins * kPerBin + (adjusted + 15) / 16 * 16;
}

__device__ inline RowScratch ScratchOf(const SamplerBatch& batch, int row) {
  uint8_t* next = static_cast<uint8_t*>(batch.scratch) +
                  static_cast<size_t>(row) * RowScratchBytes(batch.vocab_size);
  const auto take = [&](size_t bytes) {
    next += bytes;
    return next - bytes;
  };
  RowScratch scratch;
  scratch.extremes = reinterpret_cast<Extremes*>(take(kMaxSlices * sizeof(Extremes)));
  scratch.weights = reinterpret_cast<SliceWeights*>(take(kMaxSlices * sizeof(SliceWeights)));
  scratch.tops =
      reinterpret_cast<TokenOrder*>(take(kMaxSlices * kMaxTopLogprobs * sizeof(TokenOrder)));
  scratch.bin_weights =
      reinterpret_cast<unsigned long long*>(take(kWeightBins * sizeof(unsigned long long)));
  scratch.bin_tokens = reinterpret_cast<unsigned int*>(take(kWeightBins * sizeof(unsigned int)));
  scratch.adjusted = reinterpret_cast<float*>(next);
  return scratch;
}

// The slices of the vocabulary. The last slice may have fewer tokens.
struct Slicing {
  int tokens = 0;  // tokens of a slice
  int count = 0;   // slices, at most kMaxSlices
};

struct Range {
  int begin = 0;
  int end = 0;

  __device__ bool Holds(int index) const { return index >= begin && index < end; }
};

__device__ inline Range SliceRange(const Slicing& slicing, int slice, int vocab_size) {
  const int begin = slice * slicing.tokens;
  const int end = begin + slicing.tokens;
  return {begin, end < vocab_size ? end : vocab_size};
}

// The row that a block works on.
struct Row {
  const SamplerRow& params;
  const int vocab_size;
  const float* const logits;  // [vocab_size]
  const RowScratch scratch;
  const uint32_t* const mask;   // [MaskWords(vocab_size)]; null: all tokens may come
  const int end_id_count;       // end tokens that min_tokens masks: none if there is a mask
  const bool masks_stops;       // whether min_tokens still masks end and stop tokens
  const bool edited;            // whether bias, masks or penalties change the logits
  const float* const adjusted;  // [vocab_size]; the raw logits if nothing edits them

  __device__ Row(const SamplerBatch& batch, int row)
      : params(batch.params[row]),
        vocab_size(batch.vocab_size),
        logits(batch.logits + static_cast<size_t>(row) * static_cast<size_t>(batch.vocab_size)),
        scratch(ScratchOf(batch, row)),
        mask(params.masked != 0 ? batch.masks + static_cast<size_t>(row) * MaskWords(vocab_size)
                                : nullptr),
        end_id_count(mask == nullptr ? batch.end_id_count : 0),
        masks_stops(params.output_index < params.min_tokens &&
                    end_id_count + params.stop_id_count > 0),
        edited(mask != nullptr || masks_stops || params.bias_count > 0 || params.counts_slot >= 0),
        adjusted(edited ? scratch.adjusted : logits) {}

  __device__ bool greedy() const { return params.temperature < kGreedyBelow; }
  __device__ bool cut() const { return !greedy() && (params.top_k > 0 || params.top_p < 1); }
  __device__ float temperature() const {
    return params.temperature > kMinTemperature ? params.temperature : kMinTemperature;
  }

  // The row's token counts. REQUIRES: the row has a counts_slot.
  __device__ TokenCount* CountsOf(const SamplerBatch& batch) const {
    return batch.counts +
           static_cast<size_t>(params.counts_slot) * static_cast<size_t>(batch.counts_capacity);
  }
  // The extremes of the whole row. REQUIRES: the launch that finds those of the slices is over.
  __device__ Extremes FindExtremes(const Slicing& slicing) const {
    Extremes all;
    for (int slice = 0; slice < slicing.count; ++slice) {
      const Extremes one = scratch.extremes[slice];
      all.raw_first = Min()(all.raw_first, one.raw_first);
      all.first = Min()(all.first, one.first);
      all.last = Max()(all.last, one.last);
    }
    return all;
  }
  __device__ SamplerError ErrorOf(const Extremes& extremes) const {
    if (extremes.raw_first == 0) return SamplerError::kLogitNotFinite;
    if (LogitOf(extremes.first) == kMaskedLogit) return SamplerError::kAllMasked;
    return SamplerError::kNone;
  }
  __device__ Weigher MakeWeigher(const Extremes& extremes) const {
    return {adjusted[TokenOf(extremes.first)], temperature(), MinWeight(params.min_p)};
  }
  __device__ Weigher MakeRawWeigher(const Extremes& extremes) const {
    return {logits[TokenOf(extremes.raw_first)], 1, 0};
  }
  __device__ WeightBins MakeBins(const Extremes& extremes) const {
    return {LogitOf(extremes.first), LogitOf(extremes.last), temperature()};
  }
};

}  // namespace baton
