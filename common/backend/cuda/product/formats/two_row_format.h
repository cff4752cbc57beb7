// The formats of weight_format.h as two_row_product.h multiplies them: a tile of 128 columns, four
// blocks of 32 and four pairs of mma steps (PairColumn), at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/product/formats/group_format.h"
#include "common/backend/cuda/product/formats/weight_format.h"
#include "common/backend/cuda/product/product_terms.h"
#include "ptx.h"

namespace baton {

inline constexpr int kTileBlocks = kTileColumns / 32;
inline constexpr int kTilePairs = kTileColumns / 32;

// A TwoRowFormat has Part, LoadPart and BlockOf of group_format.h, and
//   Words                      the codes of a tile that a lane holds
//   LoadWords(row, tile, t)    those of lane t of four
//   Codes(words, pair, terms)  kCodeTerms terms, whose sum is the codes of the lane's columns 2i and
//                              2i + 1 of the pair, each with kAdded added, in BF16
template <CudaElement kElement>
struct TwoRowFormat : WeightFormat<kElement> {
  using Format = WeightFormat<kElement>;
  using Words = typename Format::Words;
  static constexpr int kCodeTerms = 1;
  static __device__ Words LoadWords(const QuantisedRow& row, int tile, int t) {
    return Format::LoadWords(row, tile * 4 + t);
  }
  static __device__ __forceinline__ void Codes(const Words& words, int pair,
                                               uint32_t (&terms)[1][4]) {
    Format::Codes(Format::WordsOf(words, pair), terms[0]);
  }
};

// With what would be added to a signed byte it has more bits than BF16. So it is two terms: its lowest
// seven bits with 128 added, and 256, or 128 if it is negative.
template <>
struct TwoRowFormat<CudaElement::kQ8_0> {
  static constexpr int kCodeTerms = 2;
  static constexpr int kAdded = 128 + 256;
  struct Words {
    uint4 chunks[2];  // 16 columns of each half of the tile
  };
  static __device__ Words LoadWords(const QuantisedRow& row, int tile, int t) {
    const uint8_t* const at = row.codes + tile * kTileColumns + t * 16;
    return {{LoadStreamed16(at), LoadStreamed16(at + kTileColumns / 2)}};
  }
  static __device__ __forceinline__ void Codes(const Words& words, int pair,
                                               uint32_t (&terms)[2][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t four = WordOf(words.chunks[pair / 2], pair % 2 * 2 + i / 2);
      const uint32_t two = __byte_perm(four, 0, i % 2 == 0 ? 0x4140 : 0x4342);
      terms[0][i] = MaskAndSet(two, 0x007f007fu, 0x43004300u);
      // tests/planted_bugs: kernel_bytes_of_the_other_sign
      terms[1][i] = MaskAndFlip(two, 0x00800080u, 0x43804380u);
    }
  }

  using Part = uint32_t;  // the scale, F16
  static __device__ Part LoadPart(const QuantisedRow& row, int block) {
    return LoadAt<uint16_t>(row.parts, block);
  }
  static __device__ __forceinline__ BlockScale BlockOf(Part part, int /*half*/) {
    return {HalfOf(part), 0};
  }
};

}  // namespace baton
