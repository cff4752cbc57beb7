// Where top_k and top_p cut a row off: the last token, in TokenOrder, that is kept. No row is
// sorted. The weight bins that the previous launch filled say in which bin the cut lies. Among that
// bin's tokens (a list in shared memory, or the row again if they are too many) the cut is found
// digit by digit of TokenOrder.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/sampling/sampler_block.h"
#include "common/backend/cuda/sampling/sampler_row.h"

namespace baton {

inline constexpr int kDigits = 256;
inline constexpr int kListTokens = 1024;

// A bin that FindBin found.
struct FoundBin {
  int bin = 0;
  uint64_t before = 0;  // the mass of the bins before this one
};

// Shared memory of a block that looks for cuts.
struct CutShared {
  TokenOrder list[kListTokens];
  uint64_t warps[kWarpLanes];
  unsigned int digit_tokens[kDigits];
  SharedSums<kDigits> digit_weights;
  unsigned int list_size;
  FoundBin found_bin;
};

// Finds the first of `bins` bins for which its mass and that of the bins before it sum to `target`
// or more. REQUIRES: 0 < target <= the mass of all bins.
template <class MassOf>
__device__ inline FoundBin FindBin(int bins, uint64_t target, MassOf mass_of, CutShared& shared) {
  const int share = (bins + Threads() - 1) / Threads();
  const int begin = Thread() * share;
  const int end = begin + share < bins ? begin + share : bins;
  uint64_t mass = 0;
  for (int bin = begin; bin < end; ++bin) mass += mass_of(bin);
  uint64_t before = BlockSumBefore(mass, shared.warps);
  if (before < target && target <= before + mass) {
    int bin = begin;
    for (; before + mass_of(bin) < target; ++bin) before += mass_of(bin);
    shared.found_bin = {bin, before};
  }
  __syncthreads();
  return shared.found_bin;
}

class CutFinder {
 public:
  __device__ CutFinder(const Row& row, const Extremes& extremes, CutShared& shared)
      : row_(row),
        weigher_(row.MakeWeigher(extremes)),
        bins_(row.MakeBins(extremes)),
        shared_(shared) {}

  // The order of the last token that is kept; only tokens with weight count.
  __device__ TokenOrder Find() {
    uint64_t tokens = 0;
    for (int bin = Thread(); bin < kWeightBins; bin += Threads()) tokens += TokensOf(bin);
    tokens = BlockReduce(tokens, Add(), shared_.warps);
    const auto top_k = static_cast<uint64_t>(row_.params.top_k);
    if (top_k > 0 && tokens > top_k) CutAtTopK(top_k);
    if (row_.params.top_p < 1) CutAtTopP();
    return last_;
  }

 private:
  __device__ uint64_t TokensOf(int bin) const { return row_.scratch.bin_tokens[bin]; }

  __device__ void CutAtTopK(uint64_t top_k) {
    const FoundBin found = FindBin(
        kWeightBins, top_k, [&](int bin) { return TokensOf(bin); }, shared_);
    OpenBin(found.bin);
    last_ = Descend(/*by_weight=*/false, top_k - found.before);
    last_bin_ = found.bin;
  }

  __device__ void CutAtTopP() {
    uint64_t last_weight = 0;
    if (last_bin_ < kWeightBins) {  // top_k has cut through this bin
      ForEachOfBin([&](TokenOrder order, bool inside) {
        if (inside) last_weight += weigher_(LogitOf(order));
      });
      last_weight = BlockReduce(last_weight, Add(), shared_.warps);
    }
    const auto mass_of = [&](int bin) -> uint64_t {
      if (bin == last_bin_) return last_weight;
      return bin < last_bin_ ? row_.scratch.bin_weights[bin] : 0;
    };
    uint64_t total = 0;
    for (int bin = Thread(); bin < kWeightBins; bin += Threads()) total += mass_of(bin);
    total = BlockReduce(total, Add(), shared_.warps);
    const uint64_t target = TopPWeight(total, row_.params.top_p);
    const FoundBin found = FindBin(kWeightBins, target, mass_of, shared_);
    if (found.bin != bin_) OpenBin(found.bin);
    last_ = Descend(/*by_weight=*/true, target - found.before);
  }

  // Opens `bin`: ForEachOfBin then visits its tokens.
  __device__ void OpenBin(int bin) {
    bin_ = bin;
    listed_ = TokensOf(bin) <= kListTokens;
    __syncthreads();  // the last use of the list is over
    if (Thread() == 0) shared_.list_size = 0;
    // tests/planted_bugs: kernel_list_before_it_is_empty
    __syncthreads();
    if (listed_) {
      ForEachOfRow([&](TokenOrder order, bool inside) {
        if (inside) shared_.list[atomicAdd(&shared_.list_size, 1u)] = order;
      });
    }
    __syncthreads();
  }

  template <class Work>
  __device__ void ForEachOfRow(Work work) const {
    ForEachValue(row_.adjusted, 0, row_.vocab_size, Thread(), Threads(),
                 [&](int token_id, float logit, bool inside) {
                   const bool visited = inside && bins_(logit) == bin_ && weigher_(logit) > 0;
                   work(OrderOf(logit, token_id), visited);
                 });
  }

  // Calls work(order, inside), equally often in all threads, for those tokens of the open bin that
  // are not cut off yet.
  template <class Work>
  __device__ void ForEachOfBin(Work work) const {
    const TokenOrder last = last_;
    const auto kept = [&](TokenOrder order, bool inside) { work(order, inside && order <= last); };
    if (!listed_) return ForEachOfRow(kept);
    const auto size = static_cast<int>(shared_.list_size);
    for (int base = 0; base < size; base += Threads()) {
      const int i = base + Thread();
      kept(i < size ? shared_.list[i] : kAfterAll, i < size);
    }
  }

  // The first of the open bin's tokens, in TokenOrder, at which the sum over the tokens up to it
  // reaches `target`. The sum is of weights if `by_weight`, otherwise a number of tokens. It goes
  // eight bits of TokenOrder at a time.
  __device__ TokenOrder Descend(bool by_weight, uint64_t target) {
    TokenOrder prefix = 0;
    for (int shift = 56;; shift -= 8) {
      if (shift == 24) {  // the highest byte of the token id, which is always 0
        prefix <<= 8;
        continue;
      }
      CountDigits(prefix, shift, by_weight);
      const auto mass_of = [&](int digit) -> uint64_t {
        return by_weight ? shared_.digit_weights.At(digit) : shared_.digit_tokens[digit];
      };
      const FoundBin found = FindBin(kDigits, target, mass_of, shared_);
      target -= found.before;
      prefix = prefix << 8 | static_cast<TokenOrder>(found.bin);
      if (shift == 0) return prefix;
      const unsigned int tokens = shared_.digit_tokens[found.bin];
      const bool whole = by_weight ? tokens == 1 : tokens == target;
      if (whole) return LastWith(prefix, shift);
    }
  }

  // The last of the open bin's tokens whose order begins with `prefix`.
  __device__ TokenOrder LastWith(TokenOrder prefix, int shift) {
    TokenOrder last = 0;
    ForEachOfBin([&](TokenOrder order, bool inside) {
      if (inside && order >> shift == prefix) last = Max()(last, order);
    });
    return BlockReduce(last, Max(), shared_.warps);
  }

  __device__ void CountDigits(TokenOrder prefix, int shift, bool by_weight) {
    __syncthreads();  // the last use of the sums is over
    for (int digit = Thread(); digit < kDigits; digit += Threads()) {
      shared_.digit_tokens[digit] = 0;
      shared_.digit_weights.Clear(digit);
    }
    __syncthreads();
    ForEachOfBin([&](TokenOrder order, bool inside) {
      const TokenOrder digits = order >> shift;
      inside = inside && digits >> 8 == prefix;
      const uint64_t weight = inside && by_weight ? weigher_(LogitOf(order)) : 0;
      AddDigit(static_cast<int>(digits & 0xff), weight, inside);
    });
    __syncthreads();
  }

  // Makes one addition for the whole warp if its tokens have the same digit: in a row of equal
  // logits all of them have.
  __device__ void AddDigit(int digit, uint64_t weight, bool inside) {
    const unsigned int lanes = __ballot_sync(kAllLanes, inside);
    if (lanes == 0) return;
    const int one_lane = __ffs(static_cast<int>(lanes)) - 1;
    const int one_digit = __shfl_sync(kAllLanes, digit, one_lane);
    if (__ballot_sync(kAllLanes, inside && digit == one_digit) == lanes) {
      weight = WarpReduce(weight, Add());
      if (Lane() != one_lane) return;
      atomicAdd(&shared_.digit_tokens[digit], static_cast<unsigned int>(__popc(lanes)));
      shared_.digit_weights.Add(digit, weight);
    } else if (inside) {
      atomicAdd(&shared_.digit_tokens[digit], 1u);
      shared_.digit_weights.Add(digit, weight);
    }
  }

  const Row& row_;
  const Weigher weigher_;
  const WeightBins bins_;
  CutShared& shared_;
  TokenOrder last_ = kAfterAll;  // the last token kept; all behind it are cut off
  int last_bin_ = kWeightBins;   // the bin of last_
  int bin_ = -1;                 // the open bin
  bool listed_ = false;          // whether the open bin's tokens are in shared_.list
};

}  // namespace baton
