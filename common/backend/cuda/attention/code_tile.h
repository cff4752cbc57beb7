// Codes of a byte on their way from a copied page to the tensor cores, without elements in shared
// memory between: for the kernels whose warps have a page each. Whole warps call everything here.
//
// A lane reads 16 neighbouring codes of a key at a time, those of four mma steps, and of values what
// a transposing load of pairs of codes brings. So
// - the columns of queries are exchanged in the same way, 64 at a time (QueryLayout::kForCodes);
// - of values, 4 bytes are two columns of two of them: fragments 2i and 2i + 1 of the contexts are
//   the even and the odd ones of 16 columns.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

#include "common/backend/cuda/attention/attention_pages.h"
#include "common/backend/cuda/attention/attention_softmax.h"
#include "common/backend/cuda/attention/page_copies.h"
#include "common/backend/cuda/device/device.h"
#include "ptx.h"

namespace baton {

// A page of keys and one of values, as they were copied.
template <class Stored, int kHeadDim>
struct CodeTile {
  using Copied = CopiedPage<Stored, kHeadDim>;
  using Halves = CodeHalves<Stored>;
  static constexpr int kPages = 1;

  const uint8_t* copied;  // [K, V] copied pages

  // scores = queries times the page's keys, as KeyTile::ScoreKeys.
  __device__ void ScoreKeys(const uint8_t* queries, int /*pages*/,
                            float (&scores)[1][1][2][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint8_t* const query =
        queries + lane % 16 * PageShape<kHeadDim>::kRowBytes + lane / 16 * 16;
#pragma unroll
    for (int group = 0; group < kHeadDim / 64; ++group) {
      uint32_t codes[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 four = *reinterpret_cast<const uint4*>(
            Copied::template ChunkAt<true>(copied, half * 8 + lane / 4, group * 4 + lane % 4));
        codes[half][0] = four.x;
        codes[half][1] = four.y;
        codes[half][2] = four.z;
        codes[half][3] = four.w;
      }
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        uint32_t a[4];
        LoadMatrices(a, query + (group * 4 + step) * 32);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t b[2];
          Halves::Neighbours(codes[half][step], b);
          MultiplyF16(scores[0][0][half], a, b);
        }
      }
    }
    ScaleScores<Stored, kHeadDim>(copied, 0, scores);
  }

  // sums += weights times values. A value's scale joins its weight; both together, which may be of
  // any size, become a __half as multiples of the row's unit (SoftmaxState::inverse_unit).
  // sees(row of the lane, half, first or second): whether the row sees the key.
  template <class Sees>
  __device__ void AddValues(const float (&weights)[2][4], const Sees& sees,
                            float (&inverse_unit)[2], float (&sums)[kHeadDim / 8][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint8_t* const page = copied + Copied::kBytes;
    const float2 scales[2] = {ScalesOf<Stored, kHeadDim>(page, 0),
                              ScalesOf<Stored, kHeadDim>(page, 1)};
    float scaled[2][4];
    float in_units[2][4];
    bool exceeds = false;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = i / 2 % 2;
      float& both = scaled[i / 4][i % 4];
      // A weight of 0 times a scale that is no number would be none.
      const float scale = i % 2 == 0 ? scales[i / 4].x : scales[i / 4].y;
      both = sees(row, i / 4, i % 2) ? weights[i / 4][i % 4] * scale : 0;
      in_units[i / 4][i % 4] = both * inverse_unit[row];
      exceeds |= in_units[i / 4][i % 4] > kMostInUnits;
    }
    if (__any_sync(kAllLanes, exceeds)) {
      RaiseUnits(scaled, inverse_unit, sums);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        in_units[i / 4][i % 4] = scaled[i / 4][i % 4] * inverse_unit[i / 2 % 2];
    }
    uint32_t a[4];
    RoundWeights<__half>(in_units, a);
#pragma unroll
    for (int d = 0; d < kHeadDim / 32; ++d) {
      uint32_t b[4];
      LoadMatricesTransposed(b, Copied::template ChunkAt<true>(page, lane % 16, d * 2 + lane / 16));
#pragma unroll
      for (int block = 0; block < 2; ++block) {
        uint32_t first[2];
        uint32_t second[2];
        Halves::Alternate(b[block * 2], first);
        Halves::Alternate(b[block * 2 + 1], second);
        MultiplyF16(sums[d * 4 + block * 2], a, {first[0], second[0]});
        MultiplyF16(sums[d * 4 + block * 2 + 1], a, {first[1], second[1]});
      }
    }
  }

 private:
  static constexpr float kMostInUnits = 16;

  // Makes the unit of a row that has a weight times scale of more than kMostInUnits the power of two
  // below its greatest, and scales its sums.
  static __device__ void RaiseUnits(const float (&scaled)[2][4], float (&inverse_unit)[2],
                                    float (&sums)[kHeadDim / 8][4]) {
    float scale[2] = {1, 1};
#pragma unroll
    // tests/planted_bugs: kernel_value_units
    for (int row = 0; row < 2; ++row) {
      float greatest = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) greatest = fmaxf(greatest, scaled[i / 2][row * 2 + i % 2]);
      greatest = fmaxf(greatest, __shfl_xor_sync(kAllLanes, greatest, 1));
      greatest = fmaxf(greatest, __shfl_xor_sync(kAllLanes, greatest, 2));
      if (!(greatest * inverse_unit[row] > kMostInUnits)) continue;
      const uint32_t exponent = std::bit_cast<uint32_t>(greatest) & 0x7f800000u;
      // 1 / the power of two with this exponent.
      const float inverse = std::bit_cast<float>(0x7f000000u - exponent);
      scale[row] = inverse / inverse_unit[row];
      inverse_unit[row] = inverse;
    }
    ScaleSums(scale, sums);
  }
};

}  // namespace baton
