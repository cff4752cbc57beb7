// Mixtures of experts on the device: the kernels of Backend::AddExperts, one after the other.
//
// For a row's normalised input x and each expert that it has chosen (expert_choice.h):
//   g = gate x + gate bias, u = up x + up bias     (expert_product.h)
//   d = down y + down bias, y = function(g, u)
// x and y are sums of one or two BF16 terms (product_terms.h). expert_sum.h adds d to the output.
// So a row's bits depend on its own input and on the number of terms only, if they are to.
//
// The host enqueues the same kernels with the same arguments whatever the rows choose.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "common/backend/backend.h"

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
  // BF16 terms of the input of float weights, 1 or 2. The input of quantised weights has one.
  int terms = 1;
  // Whether a row's bits may depend on nothing but its own input and the terms.
  bool invariant = true;
};

// Up to this many rows of a pass, the input of experts keeps 16 bits unless they are quantised.
inline constexpr int kFineExpertRows = 15;

// The device memory that a mixture works in: enough for all rows, or for as many as fit into
// kExpertScratchBytes, which are then computed after one another.
inline constexpr size_t kExpertScratchBytes = size_t{128} << 20;
size_t ExpertScratchBytes(const ExpertMix& mix);

// Adds the mixture to mix.out, which may be mix.in. `scratch` [ExpertScratchBytes] is aligned to
// 256 bytes. REQUIRES: the shapes of Backend::AddExperts, at most kMaxExperts experts; all gates
// have one type, all ups, and all downs.
void LaunchAddExperts(const ExpertMix& mix, uint8_t* scratch, cudaStream_t stream);

}  // namespace baton
