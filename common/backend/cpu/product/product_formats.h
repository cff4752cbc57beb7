// The way in which kernels read a packed weight (packed_weight.h): one Format per type.
//
// A Format gives the codes of a block as eight quads of bytes, its scales, and, where kHasMin, its
// min. The codes minus 2^kOffsetBits are the weight's integers (no offset where kHasMin). Only the
// sources of the kernel tables (kernels.h) include it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/cpu/product/packed_weight.h"

namespace baton {

template <class Simd>
using QuadsOf = typename Simd::Bytes[kQuads];

template <class Block>
[[gnu::always_inline]] inline const Block& BlockAt(const uint8_t* group, int block) {
  return reinterpret_cast<const Block*>(group)[block];
}

template <class Simd>
[[gnu::always_inline]] inline void UnpackNibbles(const uint8_t (&codes)[4][kQuadBytes],
                                                 QuadsOf<Simd>& quads) {
  for (int j = 0; j < 4; ++j) {
    const typename Simd::Bytes both = Simd::LoadBytes(codes[j]);
    quads[j] = Simd::template ShiftMask<0, 0x0f>(both);
    quads[j + 4] = Simd::template ShiftMask<4, 0x0f>(both);
  }
}

template <class Simd>
[[gnu::always_inline]] inline void AddFifthBits(const uint8_t (&high)[kQuadBytes],
                                                QuadsOf<Simd>& quads) {
  const typename Simd::Bytes bits = Simd::LoadBytes(high);
  quads[0] = Simd::template OrShiftMask<-4, 0x10>(quads[0], bits);
  quads[1] = Simd::template OrShiftMask<-3, 0x10>(quads[1], bits);
  quads[2] = Simd::template OrShiftMask<-2, 0x10>(quads[2], bits);
  quads[3] = Simd::template OrShiftMask<-1, 0x10>(quads[3], bits);
  quads[4] = Simd::template OrShiftMask<0, 0x10>(quads[4], bits);
  quads[5] = Simd::template OrShiftMask<1, 0x10>(quads[5], bits);
  quads[6] = Simd::template OrShiftMask<2, 0x10>(quads[6], bits);
  quads[7] = Simd::template OrShiftMask<3, 0x10>(quads[7], bits);
}

template <class Simd>
struct Q4_0Format {
  static constexpr bool kHasMin = false, kHalfScales = false, kWide = false;
  static constexpr int kOffsetBits = 3;
  [[gnu::always_inline]] static void Codes(const uint8_t* group, int b, QuadsOf<Simd>& quads) {
    UnpackNibbles<Simd>(BlockAt<Q4_0Block>(group, b).codes, quads);
  }
  [[gnu::always_inline]] static auto Scale(const uint8_t* group, int b, int /*half*/) {
    return Simd::LoadF16(BlockAt<Q4_0Block>(group, b).scale);
  }
};

template <class Simd>
struct Q5_0Format {
  static constexpr bool kHasMin = false, kHalfScales = false, kWide = false;
  static constexpr int kOffsetBits = 4;
  [[gnu::always_inline]] static void Codes(const uint8_t* group, int b, QuadsOf<Simd>& quads) {
    const Q5_0Block& block = BlockAt<Q5_0Block>(group, b);
    UnpackNibbles<Simd>(block.codes, quads);
    AddFifthBits<Simd>(block.high, quads);
  }
  [[gnu::always_inline]] static auto Scale(const uint8_t* group, int b, int /*half*/) {
    return Simd::LoadF16(BlockAt<Q5_0Block>(group, b).scale);
  }
};

template <class Simd>
struct Q8_0Format {
  static constexpr bool kHasMin = false, kHalfScales = false, kWide = true;
  static constexpr int kOffsetBits = 7;
  [[gnu::always_inline]] static void Codes(const uint8_t* group, int b, QuadsOf<Simd>& quads) {
    for (int q = 0; q < kQuads; ++q) {
      quads[q] = Simd::LoadBytes(BlockAt<Q8_0Block>(group, b).codes[q]);
    }
  }
  [[gnu::always_inline]] static auto Scale(const uint8_t* group, int b, int /*half*/) {
    return Simd::LoadF16(BlockAt<Q8_0Block>(group, b).scale);
  }
};

template <class Simd>
struct Mxfp4Format {
  static constexpr bool kHasMin = false, kHalfScales = false, kWide = false;
  static constexpr int kOffsetBits = 4;
  [[gnu::always_inline]] static void Codes(const uint8_t* group, int b, QuadsOf<Simd>& quads) {
    UnpackNibbles<Simd>(BlockAt<Mxfp4Block>(group, b).codes, quads);
    for (int q = 0; q < kQuads; ++q) quads[q] = Simd::Lookup(kMxfp4Codes, quads[q]);
  }
  [[gnu::always_inline]] static auto Scale(const uint8_t* group, int b, int /*half*/) {
    const auto exponent = Simd::LoadU8(BlockAt<Mxfp4Block>(group, b).exponent);
    return Simd::ScaleByPowerOfTwo(Simd::Set(1.0f), Simd::Add(exponent, Simd::Set(-128.0f)));
  }
};

template <class Simd>
struct Q4_1Format {
  static constexpr bool kHasMin = true, kHalfScales = false, kWide = false;
  static constexpr int kOffsetBits = 0;
  [[gnu::always_inline]] static void Codes(const uint8_t* group, int b, QuadsOf<Simd>& quads) {
    UnpackNibbles<Simd>(BlockAt<Q4_1Block>(group, b).codes, quads);
  }
  [[gnu::always_inline]] static auto Scale(const uint8_t* group, int b, int /*half*/) {
    return Simd::LoadF16(BlockAt<Q4_1Block>(group, b).scale);
  }
  [[gnu::always_inline]] static auto Min(const uint8_t* group, int b) {
    return Simd::LoadF16(BlockAt<Q4_1Block>(group, b).min);
  }
};

template <class Simd>
struct Q5_1Format {
  static constexpr bool kHasMin = true, kHalfScales = false, kWide = false;
  static constexpr int kOffsetBits = 0;
  [[gnu::always_inline]] static void Codes(const uint8_t* group, int b, QuadsOf<Simd>& quads) {
    const Q5_1Block& block = BlockAt<Q5_1Block>(group, b);
    UnpackNibbles<Simd>(block.codes, quads);
    AddFifthBits<Simd>(block.high, quads);
  }
  [[gnu::always_inline]] static auto Scale(const uint8_t* group, int b, int /*half*/) {
    return Simd::LoadF16(BlockAt<Q5_1Block>(group, b).scale);
  }
  [[gnu::always_inline]] static auto Min(const uint8_t* group, int b) {
    return Simd::LoadF16(BlockAt<Q5_1Block>(group, b).min);
  }
};

// The scales and mins that Q4_K and Q5_K have in common.
template <class Simd, class Superblock>
struct MinSuperblockFormat {
  static constexpr bool kHasMin = true, kHalfScales = false, kWide = false;
  static constexpr int kOffsetBits = 0;
  [[gnu::always_inline]] static const Superblock& Super(const uint8_t* group, int b) {
    return BlockAt<Superblock>(group, b / kSuperblockBlocks);
  }
  [[gnu::always_inline]] static const auto& Block(const uint8_t* group, int b) {
    return Super(group, b).blocks[b % kSuperblockBlocks];
  }
  [[gnu::always_inline]] static auto Scale(const uint8_t* group, int b, int /*half*/) {
    return Simd::Mul(Simd::LoadF16(Super(group, b).scale), Simd::LoadU8(Block(group, b).scale));
  }
  [[gnu::always_inline]] static auto Min(const uint8_t* group, int b) {
    const auto min =
        Simd::Mul(Simd::LoadF16(Super(group, b).min), Simd::LoadU8(Block(group, b).min));
    return Simd::Mul(Simd::Set(-1.0f), min);
  }
};

template <class Simd>
struct Q4_KFormat : MinSuperblockFormat<Simd, Q4_KSuperblock> {
  [[gnu::always_inline]] static void Codes(const uint8_t* group, int b, QuadsOf<Simd>& quads) {
    UnpackNibbles<Simd>(Q4_KFormat::Block(group, b).codes, quads);
  }
};

template <class Simd>
struct Q5_KFormat : MinSuperblockFormat<Simd, Q5_KSuperblock> {
  [[gnu::always_inline]] static void Codes(const uint8_t* group, int b, QuadsOf<Simd>& quads) {
    UnpackNibbles<Simd>(Q5_KFormat::Block(group, b).codes, quads);
    AddFifthBits<Simd>(Q5_KFormat::Block(group, b).high, quads);
  }
};

template <class Simd>
struct Q6_KFormat {
  static constexpr bool kHasMin = false, kHalfScales = true, kWide = false;
  static constexpr int kOffsetBits = kQ6KOffsetBits;
  [[gnu::always_inline]] static const Q6_KSuperblock& Super(const uint8_t* group, int b) {
    return BlockAt<Q6_KSuperblock>(group, b / kSuperblockBlocks);
  }
  [[gnu::always_inline]] static void Codes(const uint8_t* group, int b, QuadsOf<Simd>& quads) {
    const Q6_KBlock& block = Super(group, b).blocks[b % kSuperblockBlocks];
    UnpackNibbles<Simd>(block.codes, quads);
    for (int half = 0; half < 2; ++half) {
      const typename Simd::Bytes bits = Simd::LoadBytes(block.high[half]);
      typename Simd::Bytes* four = quads + 4 * half;
      four[0] = Simd::template OrShiftMask<-4, 0x30>(four[0], bits);
      four[1] = Simd::template OrShiftMask<-2, 0x30>(four[1], bits);
      four[2] = Simd::template OrShiftMask<0, 0x30>(four[2], bits);
      four[3] = Simd::template OrShiftMask<2, 0x30>(four[3], bits);
    }
  }
  [[gnu::always_inline]] static auto Scale(const uint8_t* group, int b, int half) {
    const Q6_KSuperblock& super = Super(group, b);
    return Simd::Mul(Simd::LoadF16(super.scale),
                     Simd::LoadS8(super.blocks[b % kSuperblockBlocks].scale[half]));
  }
};

}  // namespace baton
