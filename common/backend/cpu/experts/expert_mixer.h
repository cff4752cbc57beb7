// Mixtures of experts.
//
// For a row's normalised input x and each expert that it has chosen:
//   g = gate x + gate bias, u = up x + up bias     (product.h; the bias is added to the whole sum)
//   d = down y + down bias, y = function(g, u)
// x and y are prepared as product_input.h says. Then sum = fma(share, d, sum), experts ascending
// from +0, and out = fma(scale, sum, out). Shares are those of expert_choice.h. So a row's bits
// depend on its own input only.
#pragma once

#include <vector>

#include "common/backend/backend.h"
#include "common/backend/cpu/experts/expert_choice.h"
#include "common/backend/cpu/experts/expert_pairs.h"
#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cpu/product/product.h"
#include "common/backend/cpu/product/product_input.h"
#include "common/backend/cpu/simd/isa.h"

namespace baton {

// One mixture: the arguments of Backend::AddExperts; all memory is borrowed.
struct ExpertMix {
  Tensor in;                    // [rows, width]
  const float* gain = nullptr;  // [width]
  float epsilon = 0;
  Tensor router;  // [rows, experts]
  const Experts& experts;
  float scale = 1;
  Tensor out;  // [rows, width]
};

// Rows are gathered by expert, and an expert's weights are multiplied with all its rows at once;
// those of an expert without rows are not read. The pairs of rows and experts are computed in
// waves. A wave has at most kWavePairs pairs, whose products of one kind are one parallel operation.
// An expert's weights are read once in a pass, unless more than kWavePairs rows have chosen it.
//
// Memory, which grows to the bound and is used again: in bytes, at most kWavePairs times (10 * width
// + 12 * expert width), 10 for each element of the input, and 20 for each choice of each row.
// Thread rule: one thread at a time.
class ExpertMixer {
 public:
  static constexpr int kWavePairs = 512;

  // REQUIRES: CpuHas(isa). Borrows the pool.
  ExpertMixer(CpuIsa isa, ThreadPool& pool);

  // Adds the mixture to mix.out, which may be mix.in.
  // REQUIRES: the shapes of Backend::AddExperts; all gates have one type, all ups, and all downs;
  // `scratch` [threads of the pool].
  void Add(const ExpertMix& mix, std::vector<ProductScratch>& scratch);

 private:
  // Pairs [first, end).
  struct Wave {
    int first = 0;
    int end = 0;
    int size() const { return end - first; }
  };

  void PrepareInput(const ExpertMix& mix);
  // Takes memory for the pairs; copies the input of experts that have several rows, and the biases
  // that products are added to.
  void Gather(const ExpertMix& mix, Wave wave);
  void GatherPair(const ExpertMix& mix, Wave wave, int pair);
  // The input of pairs [first, end), all of one expert.
  ProductRows InputOf(Wave wave, int first, int end) const;
  void MultiplyIn(const ExpertMix& mix, Wave wave, std::vector<ProductScratch>& scratch);
  void MultiplyOut(const ExpertMix& mix, Wave wave, std::vector<ProductScratch>& scratch);
  // Adds the wave's results to the sums, and the sums to mix.out after the last wave.
  void Combine(const ExpertMix& mix, Wave wave);

  const CpuIsa isa_;
  const CpuKernels& kernels_;
  ThreadPool& pool_;
  ProductInput input_;                 // [rows, width]
  std::vector<ExpertChoice> choices_;  // [rows, used]
  ExpertPairs pairs_;
  std::vector<ProductPart> parts_;
  bool blocks_wanted_ = false;
  bool floats_wanted_ = false;
  std::vector<QuantizedBlock> blocks_;  // [pairs of a wave, width / 32]
  std::vector<float> floats_;           // [pairs of a wave, width]
  std::vector<float> gate_;             // [pairs of a wave, expert_width]
  std::vector<float> up_;               // [pairs of a wave, expert_width]
  ProductInput gated_;                  // [pairs of a wave, expert_width]
  std::vector<float> down_;             // [pairs of a wave, width]
  std::vector<float> sums_;             // [rows, width]
};

}  // namespace baton
