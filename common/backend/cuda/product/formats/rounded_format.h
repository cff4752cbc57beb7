// Quantised weights in BF16, as tile_product.h multiplies them: the scale is rounded to BF16, and so is
// its product with the code. With a min, that is rounded too, and product and sum in one.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/product/formats/bf16_pair.h"
#include "common/backend/cuda/product/formats/group_format.h"
#include "common/backend/cuda/product/formats/weight_format.h"
#include "ptx.h"

namespace baton {

// A RoundedFormat is for a lane of four that share a row, and reads a column tile of the row from shared
// memory (WeightRing::Tile). It has
//   kWordPairs                    pairs whose codes the lane loads together
//   LoadWords(row, pair)          Words: the codes of pairs [pair, pair + kWordPairs)
//   LoadScales(row, b)            what Values needs of block b of the tile beside codes, in a register
//   BlockOfPair(pair, t)          the block of which lane t has columns in this pair (PairColumn)
//   Values(words, pair, s, pairs) the weights of the lane's columns 2i and 2i + 1 of the pair. `words`
//                                 are its codes, `s` LoadScales of its block

// What codes in groups have in common.
template <CudaElement kElement>
struct RoundedGroupFormat {
  using Format = WeightFormat<kElement>;
  using Words = typename Format::Words;
  static constexpr int kWordPairs = 4;
  static __device__ __forceinline__ Words LoadWords(const QuantisedRow& row, int /*pair*/) {
    return Format::template LoadWords<PlaneIn::kShared>(row, 0);
  }
  static constexpr int BlockOfPair(int pair, int /*t*/) { return pair; }
};

template <CudaElement kElement>
struct RoundedFormat : RoundedGroupFormat<kElement> {
  using typename RoundedGroupFormat<kElement>::Format;
  using typename RoundedGroupFormat<kElement>::Words;
  // Scale and min, or the scales of both halves.
  static __device__ __forceinline__ uint32_t LoadScales(const QuantisedRow& row, int block) {
    const auto part = Format::template LoadPart<PlaneIn::kShared>(row, block);
    const BlockScale first = Format::BlockOf(part, 0);
    if constexpr (HasHalfScales(kElement)) {
      return PackBf16(first.scale, Format::BlockOf(part, 1).scale);
    } else {
      return PackBf16(first.scale, first.min);
    }
  }
  static __device__ __forceinline__ void Values(const Words& words, int pair, uint32_t scales,
                                                uint32_t (&pairs)[4]) {
    const __nv_bfloat162 first = __low2bfloat162(Bf16PairOf(scales));
    const __nv_bfloat162 second = __high2bfloat162(Bf16PairOf(scales));
    Format::Codes(Format::WordsOf(words, pair), pairs);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 code = Bf16PairOf(LessAdded<Format::kAdded>(pairs[i]));
      if constexpr (HasMin(kElement)) {
        pairs[i] = BitsOf(__hfma2(code, first, second));
      } else {
        // tests/planted_bugs: kernel_rounded_with_the_other_half
        pairs[i] = BitsOf(__hmul2(code, HasHalfScales(kElement) && i / 2 == 1 ? second : first));
      }
    }
  }
};

template <>
struct RoundedFormat<CudaElement::kQ8_0> {
  using Words = uint4;  // 16 columns of one half of the tile
  static constexpr int kWordPairs = 2;
  static __device__ __forceinline__ Words LoadWords(const QuantisedRow& row, int pair) {
    return LoadCodes16<PlaneIn::kShared>(pair < 2 ? row.codes : row.high, 0);
  }
  static __device__ __forceinline__ uint32_t LoadScales(const QuantisedRow& row, int block) {
    return PackBf16(HalfOf(LoadAt<uint16_t, PlaneIn::kShared>(row.parts, block)), 0);
  }
  static constexpr int BlockOfPair(int pair, int t) { return pair / 2 * 2 + t / 2; }
  static __device__ __forceinline__ void Values(const Words& words, int pair, uint32_t scales,
                                                uint32_t (&pairs)[4]) {
    const __nv_bfloat162 scale = __low2bfloat162(Bf16PairOf(scales));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t four = WordOf(words, pair % 2 * 2 + i / 2);
      const uint32_t two = __byte_perm(four, 0, i % 2 == 0 ? 0x4140 : 0x4342);
      // 128 and the lowest seven bits, less 128, or less 256 if it is negative.
      const uint32_t magnitude = MaskAndSet(two, 0x007f007fu, 0x43004300u);
      // tests/planted_bugs: kernel_negative_bytes_too_large
      const uint32_t base = MaskAndSet(two, 0x00800080u, 0x43004300u);
      pairs[i] = BitsOf(__hmul2(__hsub2(Bf16PairOf(magnitude), Bf16PairOf(base)), scale));
    }
  }
};

// Exact but for scales of at least 2^122, with which values are infinite or NaN.
template <>
struct RoundedFormat<CudaElement::kMxfp4> : RoundedGroupFormat<CudaElement::kMxfp4> {
  // Half of the scale, and -128 times that.
  static __device__ __forceinline__ uint32_t LoadScales(const QuantisedRow& row, int block) {
    const float scale = Format::BlockOf(Format::LoadPart<PlaneIn::kShared>(row, block), 0).scale;
    // tests/planted_bugs: kernel_magnitudes_without_their_base
    return PackBf16(scale * 0.5f, scale * -64.0f);
  }
  static __device__ __forceinline__ void Values(const Words& words, int pair, uint32_t scales,
                                                uint32_t (&pairs)[4]) {
    const __nv_bfloat162 scale = __low2bfloat162(Bf16PairOf(scales));
    const __nv_bfloat162 base = __high2bfloat162(Bf16PairOf(scales));
    const uint32_t word = Format::WordsOf(words, pair);
    const uint32_t magnitudes = word & 0x77777777u;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Twice the magnitudes, which are bytes, and with 128 added BF16.
      const uint32_t four = __byte_perm(KeptConstant(0x03020100u), KeptConstant(0x0c080604u),
                                        magnitudes >> (16 * half));
      pairs[2 * half] = __byte_perm(four, 0x43434343u, 0x4140);
      pairs[2 * half + 1] = __byte_perm(four, 0x43434343u, 0x4342);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t magnitude = BitsOf(__hfma2(Bf16PairOf(pairs[i]), scale, base));
      pairs[i] = magnitude | (word << (12 - 4 * i) & 0x80008000u);
    }
  }
};

}  // namespace baton
