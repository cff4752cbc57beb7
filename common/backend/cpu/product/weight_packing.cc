#include "common/backend/cpu/product/weight_packing.h"

#include <cmath>
#include <cstring>

#include "common/backend/cpu/product/packed_weight.h"
#include "common/base/float_types.h"

namespace baton {
namespace {

constexpr int kSuperColumns = kQuantBlock * kSuperblockBlocks;

uint16_t Load16(const uint8_t* bytes) {
  uint16_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Packs the low four bits of a block's 32 codes, for one lane. `codes` are in the order of columns.
void PackLow4(const uint8_t* codes, int lane, uint8_t (&packed)[4][kQuadBytes]) {
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 4; ++i) {
      packed[j][4 * lane + i] =
          static_cast<uint8_t>((codes[4 * j + i] & 15) | (codes[4 * (j + 4) + i] & 15) << 4);
    }
  }
}
void PackFifth(const uint8_t* codes, int lane, uint8_t (&high)[kQuadBytes]) {
  for (int i = 0; i < 4; ++i) {
    unsigned bits = 0;
    for (int q = 0; q < kQuads; ++q) bits |= (codes[4 * q + i] >> 4 & 1u) << q;
    high[4 * lane + i] = static_cast<uint8_t>(bits);
  }
}
void PackSixth(const uint8_t* codes, int lane, uint8_t (&high)[2][kQuadBytes]) {
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 4; ++i) {
      unsigned bits = 0;
      for (int q = 0; q < 4; ++q) bits |= (codes[16 * half + 4 * q + i] >> 4 & 3u) << (2 * q);
      high[half][4 * lane + i] = static_cast<uint8_t>(bits);
    }
  }
}

unsigned Low4(const uint8_t (&packed)[4][kQuadBytes], int lane, int k) {
  const uint8_t both = packed[k / 4 % 4][4 * lane + k % 4];
  return k < 16 ? both & 15u : both >> 4;
}
unsigned Fifth(const uint8_t (&high)[kQuadBytes], int lane, int k) {
  return (high[4 * lane + k % 4] >> (k / 4) & 1u) << 4;
}
unsigned Sixth(const uint8_t (&high)[2][kQuadBytes], int lane, int k) {
  return (high[k / 16][4 * lane + k % 4] >> (2 * (k / 4 % 4)) & 3u) << 4;
}

// The traits of a type: Packed, its packed block (or superblock) of kColumns columns; kFileBytes,
// the bytes of a block in the file; Pack, from a file's block to a lane; Value, of column k in a
// lane.

struct Q4_0Traits {
  using Packed = Q4_0Block;
  static constexpr int kColumns = 32;
  static constexpr size_t kFileBytes = 18;  // scale, 16 bytes of nibbles: columns j and j + 16
  static void Pack(const uint8_t* file, int lane, Packed& out) {
    out.scale[lane] = Load16(file);
    for (int j = 0; j < 4; ++j) std::memcpy(&out.codes[j][4 * lane], file + 2 + 4 * j, 4);
  }
  static float Value(const Packed& in, int lane, int k) {
    return F16ToF32(in.scale[lane]) * (static_cast<float>(Low4(in.codes, lane, k)) - 8);
  }
};

struct Q4_1Traits {
  using Packed = Q4_1Block;
  static constexpr int kColumns = 32;
  static constexpr size_t kFileBytes = 20;  // scale, min, 16 bytes of nibbles as in Q4_0
  static void Pack(const uint8_t* file, int lane, Packed& out) {
    out.scale[lane] = Load16(file);
    out.min[lane] = Load16(file + 2);
    for (int j = 0; j < 4; ++j) std::memcpy(&out.codes[j][4 * lane], file + 4 + 4 * j, 4);
  }
  static float Value(const Packed& in, int lane, int k) {
    return std::fma(F16ToF32(in.scale[lane]), static_cast<float>(Low4(in.codes, lane, k)),
                    F16ToF32(in.min[lane]));
  }
};

// Reads codes of five bits. Bit k of the 32 fifth bits at `high` belongs to column k.
void ReadFive(const uint8_t* high, const uint8_t* nibbles, uint8_t (&codes)[kQuantBlock]) {
  uint32_t bits;
  std::memcpy(&bits, high, sizeof(bits));
  for (int k = 0; k < kQuantBlock; ++k) {
    const unsigned low = k < 16 ? nibbles[k] & 15u : nibbles[k - 16] >> 4;
    codes[k] = static_cast<uint8_t>(low | (bits >> k & 1u) << 4);
  }
}

struct Q5_0Traits {
  using Packed = Q5_0Block;
  static constexpr int kColumns = 32;
  static constexpr size_t kFileBytes = 22;  // scale, 4 bytes of fifth bits, nibbles as in Q4_0
  static void Pack(const uint8_t* file, int lane, Packed& out) {
    uint8_t codes[kQuantBlock];
    ReadFive(file + 2, file + 6, codes);
    out.scale[lane] = Load16(file);
    PackLow4(codes, lane, out.codes);
    PackFifth(codes, lane, out.high);
  }
  static float Value(const Packed& in, int lane, int k) {
    const unsigned code = Low4(in.codes, lane, k) | Fifth(in.high, lane, k);
    return F16ToF32(in.scale[lane]) * (static_cast<float>(code) - 16);
  }
};

struct Q5_1Traits {
  using Packed = Q5_1Block;
  static constexpr int kColumns = 32;
  static constexpr size_t kFileBytes = 24;  // scale, min, 4 bytes of fifth bits, nibbles as in Q4_0
  static void Pack(const uint8_t* file, int lane, Packed& out) {
    uint8_t codes[kQuantBlock];
    ReadFive(file + 4, file + 8, codes);
    out.scale[lane] = Load16(file);
    out.min[lane] = Load16(file + 2);
    PackLow4(codes, lane, out.codes);
    PackFifth(codes, lane, out.high);
  }
  static float Value(const Packed& in, int lane, int k) {
    const unsigned code = Low4(in.codes, lane, k) | Fifth(in.high, lane, k);
    return std::fma(F16ToF32(in.scale[lane]), static_cast<float>(code), F16ToF32(in.min[lane]));
  }
};

struct Q8_0Traits {
  using Packed = Q8_0Block;
  static constexpr int kColumns = 32;
  static constexpr size_t kFileBytes = 34;  // scale, 32 signed bytes
  static void Pack(const uint8_t* file, int lane, Packed& out) {
    out.scale[lane] = Load16(file);
    for (int q = 0; q < kQuads; ++q) {
      uint32_t quad;
      std::memcpy(&quad, file + 2 + 4 * q, sizeof(quad));
      quad ^= 0x80808080u;  // each code plus 128
      std::memcpy(&out.codes[q][4 * lane], &quad, sizeof(quad));
    }
  }
  static float Value(const Packed& in, int lane, int k) {
    const int code = in.codes[k / 4][4 * lane + k % 4];
    return F16ToF32(in.scale[lane]) * static_cast<float>(code - 128);
  }
};

struct Mxfp4Traits {
  using Packed = Mxfp4Block;
  static constexpr int kColumns = 32;
  static constexpr size_t kFileBytes = 17;  // exponent, 16 bytes of nibbles as in Q4_0
  static void Pack(const uint8_t* file, int lane, Packed& out) {
    out.exponent[lane] = file[0];
    for (int j = 0; j < 4; ++j) std::memcpy(&out.codes[j][4 * lane], file + 1 + 4 * j, 4);
  }
  static float Value(const Packed& in, int lane, int k) {
    const int doubled = kMxfp4Codes[Low4(in.codes, lane, k)] - 16;
    return std::ldexp(static_cast<float>(doubled), in.exponent[lane] - 128);
  }
};

// Reads the 6-bit scale and min of sub-block b from a K-quant's 12 bytes. For b < 4 they are the
// low six bits of bytes b and b + 4. For b >= 4 their low four bits are in byte b + 4, and their
// upper two bits are the upper two bits of bytes b - 4 and b.
void ReadScaleMin(const uint8_t* bytes, int b, uint8_t& scale, uint8_t& min) {
  if (b < 4) {
    scale = bytes[b] & 63;
    min = bytes[b + 4] & 63;
    return;
  }
  scale = static_cast<uint8_t>((bytes[b + 4] & 15) | (bytes[b - 4] >> 6) << 4);
  min = static_cast<uint8_t>((bytes[b + 4] >> 4) | (bytes[b] >> 6) << 4);
}

template <class Superblock>
float MinSuperblockValue(const Superblock& in, int lane, int k, unsigned code) {
  const auto& block = in.blocks[k / kQuantBlock];
  const float scale = F16ToF32(in.scale[lane]) * static_cast<float>(block.scale[lane]);
  const float min = F16ToF32(in.min[lane]) * static_cast<float>(block.min[lane]);
  return std::fma(scale, static_cast<float>(code), -min);
}

struct Q4_KTraits {
  using Packed = Q4_KSuperblock;
  static constexpr int kColumns = kSuperColumns;
  // Scale, min, 12 bytes of scales and mins, nibbles: the first 32 of 64 columns are the low
  // nibbles.
  static constexpr size_t kFileBytes = 144;
  static void Pack(const uint8_t* file, int lane, Packed& out) {
    out.scale[lane] = Load16(file);
    out.min[lane] = Load16(file + 2);
    for (int b = 0; b < kSuperblockBlocks; ++b) {
      Q4_KBlock& block = out.blocks[b];
      ReadScaleMin(file + 4, b, block.scale[lane], block.min[lane]);
      uint8_t codes[kQuantBlock];
      for (int k = 0; k < kQuantBlock; ++k) {
        codes[k] = file[16 + b / 2 * 32 + k] >> (b % 2 * 4) & 15;
      }
      PackLow4(codes, lane, block.codes);
    }
  }
  static float Value(const Packed& in, int lane, int k) {
    return MinSuperblockValue(in, lane, k,
                              Low4(in.blocks[k / kQuantBlock].codes, lane, k % kQuantBlock));
  }
};

struct Q5_KTraits {
  using Packed = Q5_KSuperblock;
  static constexpr int kColumns = kSuperColumns;
  // As in Q4_K, but 32 bytes come before the nibbles: bit b of byte k is the fifth bit of column k
  // in sub-block b.
  static constexpr size_t kFileBytes = 176;
  static void Pack(const uint8_t* file, int lane, Packed& out) {
    out.scale[lane] = Load16(file);
    out.min[lane] = Load16(file + 2);
    for (int b = 0; b < kSuperblockBlocks; ++b) {
      Q5_KBlock& block = out.blocks[b];
      ReadScaleMin(file + 4, b, block.scale[lane], block.min[lane]);
      uint8_t codes[kQuantBlock];
      for (int k = 0; k < kQuantBlock; ++k) {
        const unsigned low = file[48 + b / 2 * 32 + k] >> (b % 2 * 4) & 15u;
        codes[k] = static_cast<uint8_t>(low | (file[16 + k] >> b & 1u) << 4);
      }
      PackLow4(codes, lane, block.codes);
      PackFifth(codes, lane, block.high);
    }
  }
  static float Value(const Packed& in, int lane, int k) {
    const Q5_KBlock& block = in.blocks[k / kQuantBlock];
    const int column = k % kQuantBlock;
    return MinSuperblockValue(in, lane, k,
                              Low4(block.codes, lane, column) | Fifth(block.high, lane, column));
  }
};

struct Q6_KTraits {
  using Packed = Q6_KSuperblock;
  static constexpr int kColumns = kSuperColumns;
  // 128 bytes of nibbles and 64 bytes of upper bits, of which a half of 128 columns has 64 and 32;
  // then 16 signed scales, then the scale. Quarter c (32 columns) of a half has nibble c / 2 of
  // bytes 32 * (c % 2) + k, and bits 2c and 2c + 1 of byte k.
  static constexpr size_t kFileBytes = 210;
  static void Pack(const uint8_t* file, int lane, Packed& out) {
    out.scale[lane] = Load16(file + 208);
    for (int b = 0; b < kSuperblockBlocks; ++b) {
      Q6_KBlock& block = out.blocks[b];
      const int quarter = b % 4;
      const uint8_t* low = file + b / 4 * 64 + quarter % 2 * 32;
      const uint8_t* high = file + 128 + b / 4 * 32;
      uint8_t codes[kQuantBlock];
      for (int k = 0; k < kQuantBlock; ++k) {
        codes[k] = static_cast<uint8_t>((low[k] >> (quarter / 2 * 4) & 15u) |
                                        (high[k] >> (2 * quarter) & 3u) << 4);
      }
      PackLow4(codes, lane, block.codes);
      PackSixth(codes, lane, block.high);
      for (int half = 0; half < 2; ++half) {
        block.scale[half][lane] = static_cast<int8_t>(file[192 + 2 * b + half]);
      }
    }
  }
  static float Value(const Packed& in, int lane, int k) {
    const Q6_KBlock& block = in.blocks[k / kQuantBlock];
    const int column = k % kQuantBlock;
    const unsigned code = Low4(block.codes, lane, column) | Sixth(block.high, lane, column);
    const int8_t* scales = block.scale[column / 16];
    const float scale = F16ToF32(in.scale[lane]) * static_cast<float>(scales[lane]);
    return scale * (static_cast<float>(code) - 32);
  }
};

template <class Element>
struct FloatTraits {
  using Packed = Element[kLanes];
  static constexpr int kColumns = 1;
  static constexpr size_t kFileBytes = sizeof(Element);
  static void Pack(const uint8_t* file, int lane, Packed& out) {
    std::memcpy(&out[lane], file, sizeof(Element));
  }
};
struct F32Traits : FloatTraits<float> {
  static float Value(const Packed& in, int lane, int /*k*/) { return in[lane]; }
};
struct F16Traits : FloatTraits<uint16_t> {
  static float Value(const Packed& in, int lane, int /*k*/) { return F16ToF32(in[lane]); }
};
struct Bf16Traits : FloatTraits<uint16_t> {
  static float Value(const Packed& in, int lane, int /*k*/) { return Bf16ToF32(in[lane]); }
};

// Calls visit(traits) for the type's traits; returns false for a type that has none.
template <class Visit>
bool WithTraits(GgmlType type, Visit visit) {
  switch (type) {
    case GgmlType::kF32:
      return visit(F32Traits()), true;
    case GgmlType::kF16:
      return visit(F16Traits()), true;
    case GgmlType::kBf16:
      return visit(Bf16Traits()), true;
    case GgmlType::kQ4_0:
      return visit(Q4_0Traits()), true;
    case GgmlType::kQ4_1:
      return visit(Q4_1Traits()), true;
    case GgmlType::kQ5_0:
      return visit(Q5_0Traits()), true;
    case GgmlType::kQ5_1:
      return visit(Q5_1Traits()), true;
    case GgmlType::kQ8_0:
      return visit(Q8_0Traits()), true;
    case GgmlType::kQ4_K:
      return visit(Q4_KTraits()), true;
    case GgmlType::kQ5_K:
      return visit(Q5_KTraits()), true;
    case GgmlType::kQ6_K:
      return visit(Q6_KTraits()), true;
    case GgmlType::kMxfp4:
      return visit(Mxfp4Traits()), true;
    default:
      return false;
  }
}

}  // namespace

size_t PackedGroupBytes(GgmlType type, size_t columns) {
  size_t bytes = 0;
  WithTraits(type, [&](auto traits) {
    using Traits = decltype(traits);
    if (columns % Traits::kColumns != 0) return;
    bytes = columns / Traits::kColumns * sizeof(typename Traits::Packed);
  });
  return bytes;
}

bool ValidRow(GgmlType type, const uint8_t* file, int columns) {
  if (type != GgmlType::kMxfp4) return true;
  for (int b = 0; b < columns / Mxfp4Traits::kColumns; ++b) {
    if (file[static_cast<size_t>(b) * Mxfp4Traits::kFileBytes] == 255) return false;
  }
  return true;
}

void PackRow(GgmlType type, const uint8_t* file, int columns, int lane, uint8_t* group) {
  WithTraits(type, [&](auto traits) {
    using Traits = decltype(traits);
    auto* packed = reinterpret_cast<typename Traits::Packed*>(group);
    for (int b = 0; b < columns / Traits::kColumns; ++b) {
      Traits::Pack(file + static_cast<size_t>(b) * Traits::kFileBytes, lane, packed[b]);
    }
  });
}

void DequantiseRow(GgmlType type, const uint8_t* group, int columns, int lane, float* out) {
  WithTraits(type, [&](auto traits) {
    using Traits = decltype(traits);
    const auto* packed = reinterpret_cast<const typename Traits::Packed*>(group);
    for (int k = 0; k < columns; ++k) {
      out[k] = Traits::Value(packed[k / Traits::kColumns], lane, k % Traits::kColumns);
    }
  });
}

}  // namespace baton
