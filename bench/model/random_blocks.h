// Random weights in the block formats of GGUF.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

#include "common/gguf/ggml_type.h"

namespace baton {

// Whether FillRandomBlocks knows `type`: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K,
// Q6_K.
bool HasRandomBlocks(GgmlType type);

// Fills `out` with blocks of `type` whose values have a mean near zero and a standard deviation of
// about `deviation`. Every code of a quantised type is equally likely. The same seed gives the same
// bytes. REQUIRES: HasRandomBlocks(type), `out` is whole blocks, 1e-4 <= deviation <= 1.
void FillRandomBlocks(GgmlType type, double deviation, uint64_t seed, absl::Span<uint8_t> out);

}  // namespace baton
