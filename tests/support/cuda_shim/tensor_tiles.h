// The arithmetic of the tensor cores: mma.m16n8k16, once all lanes of a warp have brought their parts.
#pragma once

#include <cstdint>

#include "tests/support/cuda_shim/fibers.h"

namespace baton::cuda_shim {

// What a lane brings: its elements of A [16 rows][16] and B [16][8 columns], pairs of 16-bit floats,
// and of the sums D [16 rows][8 columns], as PTX ISA 9.7.14 places them in registers.
struct MultiplyData {
  uint32_t a[4];
  uint32_t b[2];
  float d[4];
};
static_assert(sizeof(MultiplyData) <= sizeof(LaneData::bytes));

// Replaces the MultiplyData of each of the 32 lanes by its four elements of D + A x B. Products are
// exact; each sum adds them in ascending order, one rounding each.
void MultiplyF16Tiles(LaneData* lanes);
void MultiplyBf16Tiles(LaneData* lanes);

}  // namespace baton::cuda_shim
