// The formats of weight_format.h whose codes lie in groups (weight_layout.h): Q4_0, Q4_1, Q4_K, Q6_K
// and MXFP4. A chunk has eight columns of each of a group's four blocks, so four lanes together have
// whole blocks. Tensor cores multiply the codes themselves, which BF16 holds exactly, and the sum of
// a block, or of its halves, is scaled. With so few bits per weight, what is done for each weight
// counts; a scale serves 16 or 32.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

#include "common/backend/cuda/product/formats/bf16_pair.h"
#include "common/backend/cuda/product/formats/weight_format.h"
#include "ptx.h"

namespace baton {

// A Format has, beside kColumns of weight_format.h,
//   Words                     the codes of a chunk
//   LoadWords<kIn>(row, c)    those of chunk c of a QuantisedRow
//   WordsOf(words, b)         those of block b of the group: BlockWords
//   LoadBlock(row, b)         the same, from shared memory, of a row that is one chunk
//   Codes(words, pairs)       the codes of the block's columns 2i and 2i + 1, each with kAdded added,
//                             in BF16
//   Scales                    what the four blocks of a group have beside codes
//   LoadScales(row, g)        that of group g
//   Part                      what one block has
//   LoadPart<kIn>(row, b)     that of block b of the row
//   BlockOf(scales, b, half)  scale and min of that half of block b of the group
//   BlockOf(part, half)       those of that half of the block
//   Eight, LoadEight, Quad    for one lane: as in weight_format.h
// A value is scale * code + min.
struct BlockScale {
  float scale = 0;
  float min = 0;
};

// code - kOffset, exactly and without a conversion, which is slow. REQUIRES: code < 2^22.
template <int kOffset>
__device__ __forceinline__ float CodeOf(uint32_t code) {
  constexpr uint32_t kTwoTo23 = 0x4b000000u;  // a float whose unit of the last place is 1
  return std::bit_cast<float>(kTwoTo23 | code) - static_cast<float>((1 << 23) + kOffset);
}

// Nibble `i` of a word, which is shifted so that the nibble lies at bit 8, 12 or 16: three shifted
// words serve all eight. With a constant `i` all this is one instruction, beside the shifts.
__device__ __forceinline__ int NibblePlace(int i) {
  return i < 2 ? 4 * i + 8 : i < 5 ? 4 * i : 4 * i - 12;
}
__device__ __forceinline__ float BaseAndNibble(uint32_t word, int i) {
  const uint32_t shifted = i < 2 ? word << 8 : i < 5 ? word : word >> 12;
  const int place = NibblePlace(i);
  return std::bit_cast<float>(MaskAndSet(shifted, 15u << place, BaseBitsOf(place)));
}

// BF16 of 128 + code, of the codes of two columns: the lowest four bits of both halves of `bits`.
__device__ __forceinline__ uint32_t CodePair(uint32_t bits) {
  return MaskAndSet(bits, 0x000f000fu, 0x43004300u);
}
// The same of codes of six bits.
__device__ __forceinline__ uint32_t SixBitPair(uint32_t bits) {
  return MaskAndSet(bits, 0x003f003fu, 0x43004300u);
}
// The codes of a word, each with 128 added.
__device__ __forceinline__ void CodesAnd128(uint32_t word, uint32_t (&pairs)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = CodePair(word >> (4 * i));
}
// BF16 pairs of codes with kAdded added, less that, exactly. REQUIRES: 128 <= kAdded < 256.
template <int kAdded>
__device__ __forceinline__ uint32_t LessAdded(uint32_t codes) {
  constexpr uint32_t kBase = (0x4300u + kAdded - 128) * 0x10001u;
  return BitsOf(__hsub2(Bf16PairOf(codes), Bf16PairOf(kBase)));
}

// scale * byte `i` of `bytes`, exactly. REQUIRES: the scale is a finite F16.
__device__ __forceinline__ float ScaledByte(uint32_t bytes, uint32_t i, float scale) {
  // The byte becomes the last bits of a float from 2^23 on.
  const uint32_t bits = __byte_perm(bytes, BaseBitsOf(0), 0x7440u | i);
  return ScaledCode<0>(std::bit_cast<float>(bits), BaseOf(0), scale);
}

// Where eight columns are in their row's codes, counted in words.
__device__ __forceinline__ int WordOfEight(int eight) {
  return eight / 16 * 16 + eight % 4 * 4 + eight % 16 / 4;
}
// The nibble of column `column` of a word's eight.
__device__ __forceinline__ int NibbleOfColumn(int column) { return column / 2 + column % 2 * 4; }

// value(nibble) of the columns of quad `quad` of a word's two.
template <class Value>
__device__ __forceinline__ float4 QuadOfWord(int quad, const Value& value) {
  const int column = 4 * quad;
  return make_float4(value(NibbleOfColumn(column)), value(NibbleOfColumn(column + 1)),
                     value(NibbleOfColumn(column + 2)), value(NibbleOfColumn(column + 3)));
}
// scale * code + min of the quad's columns, in one rounding.
__device__ __forceinline__ float4 ScaledQuad(uint32_t word, int quad, BlockScale block) {
  return QuadOfWord(quad, [&](int i) {
    return __fmaf_rn(block.scale, BaseAndNibble(word, i) - BaseOf(NibblePlace(i)), block.min);
  });
}

// What formats of 16 bytes of codes in a chunk have in common.
template <CudaElement kElement_>
struct GroupFormat {
  static constexpr CudaElement kElement = kElement_;
  static constexpr int kColumns = ChunkColumns(kElement);
  using Words = uint4;
  template <PlaneIn kIn = PlaneIn::kGlobal>
  static __device__ Words LoadWords(const QuantisedRow& row, int chunk) {
    return LoadCodes16<kIn>(row.codes, chunk);
  }
  using BlockWords = uint32_t;
  static __device__ __forceinline__ BlockWords WordsOf(const Words& words, int block) {
    return WordOf(words, block);
  }
  static __device__ __forceinline__ BlockWords LoadBlock(const QuantisedRow& row, int block) {
    return LoadAt<uint32_t, PlaneIn::kShared>(row.codes, block);
  }
  static constexpr int kAdded = 128;
  static __device__ __forceinline__ void Codes(BlockWords word, uint32_t (&pairs)[4]) {
    CodesAnd128(word, pairs);
  }
};

// What Q4_K and Q6_K have in common: two bytes for each block, and a Super for eight blocks.
template <class Super>
struct SuperBlockFormat {
  struct Scales {
    uint2 parts;
    uint32_t super;
  };
  struct Part {
    uint32_t bytes;
    uint32_t super;
  };
  static __device__ Scales LoadScales(const QuantisedRow& row, int group) {
    return {LoadAt<uint2>(row.parts, group),
            LoadAt<Super>(row.supers, static_cast<uint32_t>(group) / 2)};
  }
  template <PlaneIn kIn = PlaneIn::kGlobal>
  static __device__ Part LoadPart(const QuantisedRow& row, int block) {
    return {LoadAt<uint16_t, kIn>(row.parts, block),
            LoadAt<Super, kIn>(row.supers, static_cast<uint32_t>(block) / 8)};
  }
};

template <>
struct WeightFormat<CudaElement::kQ4_0> : GroupFormat<CudaElement::kQ4_0> {
  static constexpr int kOffset = 8;
  static constexpr int kAdded = 128 + kOffset;

  using Scales = uint2;   // F16, one for each block
  using Part = uint32_t;  // F16
  static __device__ Scales LoadScales(const QuantisedRow& row, int group) {
    return LoadAt<uint2>(row.parts, group);
  }
  template <PlaneIn kIn = PlaneIn::kGlobal>
  static __device__ Part LoadPart(const QuantisedRow& row, int block) {
    return LoadAt<uint16_t, kIn>(row.parts, block);
  }
  static __device__ __forceinline__ BlockScale BlockOf(Part part, int /*half*/) {
    return {HalfOf(part), 0};
  }
  static __device__ __forceinline__ BlockScale BlockOf(const Scales& scales, int block, int half) {
    return BlockOf((block < 2 ? scales.x : scales.y) >> (16 * (block % 2)), half);
  }

  struct Eight {
    uint32_t codes;
    Part part;
  };
  static __device__ Eight LoadEight(const uint8_t* begin, int columns, int eight) {
    const QuantisedRow row = QuantisedRowAt<kElement>(begin, columns);
    return {LoadAt<uint32_t>(row.codes, WordOfEight(eight)), LoadPart(row, eight / 4)};
  }
  static __device__ float4 Quad(const Eight& eight, int quad) {
    const float scale = HalfOf(eight.part);
    return QuadOfWord(quad, [&](int i) {
      return ScaledCode<kOffset>(BaseAndNibble(eight.codes, i), BaseOf(NibblePlace(i)), scale);
    });
  }
};

template <>
struct WeightFormat<CudaElement::kQ4_1> : GroupFormat<CudaElement::kQ4_1> {
  using Scales = uint4;   // for each block scale and min, F16
  using Part = uint32_t;  // scale and min, F16
  static __device__ Scales LoadScales(const QuantisedRow& row, int group) {
    return LoadAt<uint4>(row.parts, group);
  }
  template <PlaneIn kIn = PlaneIn::kGlobal>
  static __device__ Part LoadPart(const QuantisedRow& row, int block) {
    return LoadAt<uint32_t, kIn>(row.parts, block);
  }
  static __device__ __forceinline__ BlockScale BlockOf(Part part, int /*half*/) {
    return {HalfOf(part), HalfOf(part >> 16)};
  }
  static __device__ __forceinline__ BlockScale BlockOf(const Scales& scales, int block, int half) {
    return BlockOf(WordOf(scales, block), half);
  }

  struct Eight {
    uint32_t codes;
    Part part;
  };
  static __device__ Eight LoadEight(const uint8_t* begin, int columns, int eight) {
    const QuantisedRow row = QuantisedRowAt<kElement>(begin, columns);
    return {LoadAt<uint32_t>(row.codes, WordOfEight(eight)), LoadPart(row, eight / 4)};
  }
  static __device__ float4 Quad(const Eight& eight, int quad) {
    return ScaledQuad(eight.codes, quad, BlockOf(eight.part, 0));
  }
};

// Two bytes: scale and min, unsigned. Super: scale and min, F16.
template <>
struct WeightFormat<CudaElement::kQ4_K> : GroupFormat<CudaElement::kQ4_K>,
                                          SuperBlockFormat<uint32_t> {
  static __device__ __forceinline__ BlockScale BlockOf(const Part& part, int /*half*/) {
    return BlockAt(part.bytes, 0, part.super);
  }
  static __device__ __forceinline__ BlockScale BlockOf(const Scales& scales, int block,
                                                       int /*half*/) {
    return BlockAt(block < 2 ? scales.parts.x : scales.parts.y, block % 2 * 2, scales.super);
  }

  struct Eight {
    uint32_t codes;
    Part part;
  };
  static __device__ Eight LoadEight(const uint8_t* begin, int columns, int eight) {
    const QuantisedRow row = QuantisedRowAt<kElement>(begin, columns);
    return {LoadAt<uint32_t>(row.codes, WordOfEight(eight)), LoadPart(row, eight / 4)};
  }
  static __device__ float4 Quad(const Eight& eight, int quad) {
    return ScaledQuad(eight.codes, quad, BlockOf(eight.part, 0));
  }

 private:
  // The block whose scale and min are bytes `first` and `first` + 1 of `bytes`.
  static __device__ __forceinline__ BlockScale BlockAt(uint32_t bytes, int first, uint32_t super) {
    const auto byte = static_cast<uint32_t>(first);
    return {ScaledByte(bytes, byte, HalfOf(super)),
            ScaledByte(bytes, byte + 1, -HalfOf(super >> 16))};
  }
};

// Two bytes: the scales of both halves, signed. Super: scale, F16.
template <>
struct WeightFormat<CudaElement::kQ6_K> : SuperBlockFormat<uint16_t> {
  static constexpr CudaElement kElement = CudaElement::kQ6_K;
  static constexpr int kColumns = ChunkColumns(kElement);
  static constexpr int kOffset = 32;
  static constexpr int kAdded = 128 + kOffset;
  struct Words {
    uint4 low;
    uint2 high;
  };
  template <PlaneIn kIn = PlaneIn::kGlobal>
  static __device__ Words LoadWords(const QuantisedRow& row, int chunk) {
    return {LoadCodes16<kIn>(row.codes, chunk), LoadAt<uint2, kIn>(row.high, chunk)};
  }
  struct BlockWords {
    uint32_t low;
    uint32_t high;  // with the block's bytes lowest in each half
  };
  static __device__ __forceinline__ BlockWords WordsOf(const Words& words, int block) {
    return {WordOf(words.low, block),
            (block < 2 ? words.high.x : words.high.y) >> (8 * (block % 2))};
  }
  static __device__ __forceinline__ BlockWords LoadBlock(const QuantisedRow& row, int block) {
    return {LoadAt<uint32_t, PlaneIn::kShared>(row.codes, block),
            LoadAt<uint32_t, PlaneIn::kShared>(row.high, block / 2) >> (8 * (block % 2))};
  }
  static __device__ __forceinline__ void Codes(const BlockWords& words, uint32_t (&pairs)[4]) {
    pairs[0] = SixBitPair(words.low);
    pairs[1] = SixBitPair(words.low >> 6);
    pairs[2] = CodePair(words.low >> 12) | (words.high >> 2 & 0x00300030u);
    pairs[3] = SixBitPair(words.high);
  }

  static __device__ __forceinline__ BlockScale BlockOf(const Part& part, int half) {
    return BlockAt(part.bytes, half, part.super);
  }
  static __device__ __forceinline__ BlockScale BlockOf(const Scales& scales, int block, int half) {
    // tests/planted_bugs: kernel_scale_of_the_other_half
    return BlockAt(block < 2 ? scales.parts.x : scales.parts.y, block % 2 * 2 + half, scales.super);
  }

  // The first four of the eight columns are in one lane's words, the others in the next lane's.
  struct Eight {
    uint32_t low[2];
    uint32_t high[2];  // with the block's byte lowest
    int half;
    Part part;
  };
  static __device__ Eight LoadEight(const uint8_t* begin, int columns, int eight) {
    const QuantisedRow row = QuantisedRowAt<kElement>(begin, columns);
    const int block = eight % 16 / 4;
    const int first = eight / 16 * 4 + eight % 2 * 2;  // chunk
    Eight out;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      out.low[i] = LoadAt<uint32_t>(row.codes, (first + i) * 4 + block);
      out.high[i] = LoadAt<uint32_t>(row.high, (first + i) * 2 + block / 2) >> (8 * (block % 2));
    }
    out.half = eight % 4 / 2;
    out.part = LoadPart(row, eight / 4);
    return out;
  }
  static __device__ float4 Quad(const Eight& eight, int quad) {
    const float scale = BlockOf(eight.part, eight.half).scale;
    const uint32_t low = eight.low[quad];
    const uint32_t high = eight.high[quad];
    // Each of these has the codes of two columns, from bits 0 and 16 on.
    const uint32_t third = (low >> 12 & 0x000f000fu) | (high >> 2 & 0x00300030u);
    const uint32_t first = eight.half == 0 ? low : third;
    const uint32_t second = eight.half == 0 ? low >> 6 : high;
    const auto value = [scale](uint32_t code) { return scale * CodeOf<kOffset>(code & 63u); };
    return make_float4(value(first), value(first >> 16), value(second), value(second >> 16));
  }

 private:
  // The half of a block whose scale is byte `i` of `bytes`.
  static __device__ __forceinline__ BlockScale BlockAt(uint32_t bytes, int i, uint32_t super) {
    return {ScaledSignedByte(bytes ^ 0x80808080u, static_cast<uint32_t>(i), HalfOf(super)), 0};
  }
};

// A code is a sign, two bits of exponent and one of mantissa (E2M1): 0, 1/2, 1, 3/2, 2, 3, 4 or 6.
// A block's scale is a power of two.
template <>
struct WeightFormat<CudaElement::kMxfp4> : GroupFormat<CudaElement::kMxfp4> {
  static constexpr int kAdded = 0;
  // The two bytes of a BF16 magnitude are looked up, four magnitudes at a time.
  static __device__ __forceinline__ void Codes(BlockWords word, uint32_t (&pairs)[4]) {
    const uint32_t magnitudes = word & 0x77777777u;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t four = magnitudes >> (16 * half);
      const uint32_t low = __byte_perm(0xc0800000u, 0xc0804000u, four);
      const uint32_t high = __byte_perm(0x3f3f3f00u, 0x40404040u, four);
      pairs[2 * half] = __byte_perm(low, high, 0x5140);
      pairs[2 * half + 1] = __byte_perm(low, high, 0x7362);
    }
#pragma unroll
    // tests/planted_bugs: kernel_signs_of_the_other_columns
    for (int i = 0; i < 4; ++i) pairs[i] |= word << (12 - 4 * i) & 0x80008000u;
  }

  using Scales = uint32_t;  // the exponents, a byte for each block
  using Part = uint32_t;    // the exponent, in the lowest byte
  static __device__ Scales LoadScales(const QuantisedRow& row, int group) {
    return LoadAt<uint32_t>(row.parts, group);
  }
  template <PlaneIn kIn = PlaneIn::kGlobal>
  static __device__ Part LoadPart(const QuantisedRow& row, int block) {
    return LoadAt<uint8_t, kIn>(row.parts, block);
  }
  // The scale is 2^(e - 127), where e is byte `block` of `scales`; the least is subnormal.
  static __device__ __forceinline__ BlockScale BlockOf(Scales scales, int block, int /*half*/) {
    const uint32_t highest = __byte_perm(scales, 0, 0x0444u | static_cast<uint32_t>(block) << 12);
    return {std::bit_cast<float>(max(highest >> 1, 0x00400000u)), 0};
  }
  static __device__ __forceinline__ BlockScale BlockOf(Part part, int half) {
    return BlockOf(part, 0, half);
  }

  struct Eight {
    uint32_t codes;
    Part part;
  };
  static __device__ Eight LoadEight(const uint8_t* begin, int columns, int eight) {
    const QuantisedRow row = QuantisedRowAt<kElement>(begin, columns);
    return {LoadAt<uint32_t>(row.codes, WordOfEight(eight)), LoadPart(row, eight / 4)};
  }
  static __device__ float4 Quad(const Eight& eight, int quad) {
    uint32_t pairs[4];
    Codes(eight.codes, pairs);
    const float scale = BlockOf(eight.part, 0).scale;
    const uint32_t low = pairs[2 * quad];
    const uint32_t high = pairs[2 * quad + 1];
    // Adding +0 makes -0 the +0 that it is on the CPU.
    const auto value = [scale](uint32_t bits) {
      return __fmaf_rn(std::bit_cast<float>(bits), scale, 0.0f);
    };
    return make_float4(value(low << 16), value(low & 0xffff0000u), value(high << 16),
                       value(high & 0xffff0000u));
  }
};

}  // namespace baton
