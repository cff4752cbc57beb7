#include "tests/support/ggml_blocks.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "common/base/float_types.h"

namespace baton {
namespace {

float HalfToFloat(const uint8_t* bytes) {
  const int bits = bytes[0] | bytes[1] << 8;
  const int exponent = bits >> 10 & 31;
  const float fraction = static_cast<float>(bits & 1023) / 1024.0f;
  const float magnitude =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0f + fraction, exponent - 15);
  return bits >> 15 != 0 ? -magnitude : magnitude;
}

void AppendHalf(float value, std::string& bytes) {
  const uint16_t half = F32ToF16(value);
  bytes.push_back(static_cast<char>(half & 255));
  bytes.push_back(static_cast<char>(half >> 8));
}

// The codes of a block as they are stored, without sign.
using Codes = std::array<int, 256>;

// Appends `count` bytes, each with the low 4 bits of code i and above them those of code i +
// distance, for i from `first` on.
void AppendNibbles(const Codes& codes, int first, int count, int distance, std::string& bytes) {
  for (int i = first; i < first + count; ++i) {
    const size_t low = static_cast<size_t>(i);
    const size_t high = static_cast<size_t>(i + distance);
    bytes.push_back(static_cast<char>((codes[low] & 15) | (codes[high] & 15) << 4));
  }
}

// Appends the fifth bits of Q5_0 and Q5_1: bit i is that of code i.
void AppendFifthBits(const Codes& codes, std::string& bytes) {
  for (size_t byte = 0; byte < 4; ++byte) {
    int bits = 0;
    for (size_t i = 0; i < 8; ++i) bits |= (codes[byte * 8 + i] >> 4 & 1) << i;
    bytes.push_back(static_cast<char>(bits));
  }
}

// Appends the eight scales and eight minimums of Q4_K and Q5_K, 6 bits each, in 12 bytes.
void AppendPartScales(const BlockContents& contents, std::string& bytes) {
  const auto& scales = contents.part_scales;
  const auto& mins = contents.part_mins;
  for (size_t i = 0; i < 4; ++i) {
    bytes.push_back(static_cast<char>(scales[i] | (scales[i + 4] >> 4) << 6));
  }
  for (size_t i = 0; i < 4; ++i) {
    bytes.push_back(static_cast<char>(mins[i] | (mins[i + 4] >> 4) << 6));
  }
  for (size_t i = 0; i < 4; ++i) {
    bytes.push_back(static_cast<char>((scales[i + 4] & 15) | (mins[i + 4] & 15) << 4));
  }
}

struct PartScale {
  int scale;
  int min;
};
PartScale PartScaleOf(const uint8_t* bytes, int part) {
  if (part < 4) return {bytes[part] & 63, bytes[part + 4] & 63};
  return {(bytes[part + 4] & 15) | (bytes[part - 4] >> 6) << 4,
          bytes[part + 4] >> 4 | (bytes[part] >> 6) << 4};
}

std::string EncodeSixBits(const BlockContents& contents, const Codes& codes) {
  std::string bytes;
  for (int half = 0; half < 256; half += 128) {
    AppendNibbles(codes, half, 64, 64, bytes);
  }
  for (size_t half = 0; half < 256; half += 128) {
    for (size_t i = half; i < half + 32; ++i) {
      bytes.push_back(static_cast<char>(codes[i] >> 4 | (codes[i + 32] >> 4) << 2 |
                                        (codes[i + 64] >> 4) << 4 | (codes[i + 96] >> 4) << 6));
    }
  }
  for (const int scale : contents.part_scales) bytes.push_back(static_cast<char>(scale));
  AppendHalf(contents.scale, bytes);
  return bytes;
}

void DecodeFourOrFiveBitK(GgmlType type, const uint8_t* block, float* out) {
  const float scale = HalfToFloat(block);
  const float min = HalfToFloat(block + 2);
  const uint8_t* fifth = block + 16;
  const uint8_t* nibbles = type == GgmlType::kQ5_K ? block + 48 : block + 16;
  for (int i = 0; i < 256; ++i) {
    const int part = i / 32;
    const int byte = nibbles[part / 2 * 32 + i % 32];
    int code = part % 2 == 0 ? byte & 15 : byte >> 4;
    if (type == GgmlType::kQ5_K) code += (fifth[i % 32] >> part & 1) * 16;
    const PartScale p = PartScaleOf(block + 4, part);
    out[i] = scale * static_cast<float>(p.scale) * static_cast<float>(code) -
             min * static_cast<float>(p.min);
  }
}

void DecodeSixBitK(const uint8_t* block, float* out) {
  const uint8_t* nibbles = block;
  const uint8_t* upper = block + 128;
  const auto* scales = reinterpret_cast<const int8_t*>(block + 192);
  const float scale = HalfToFloat(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;  // quarter of the half block
    const int byte = nibbles[half * 64 + i % 64];
    const int low = quarter < 2 ? byte & 15 : byte >> 4;
    const int code = (low | (upper[half * 32 + i % 32] >> (2 * quarter) & 3) << 4) - 32;
    out[i] = scale * static_cast<float>(scales[i / 16]) * static_cast<float>(code);
  }
}

// Decodes the types with blocks of 32 values.
void DecodeSimple(GgmlType type, const uint8_t* block, float* out) {
  const float scale = HalfToFloat(block);
  const bool has_min = type == GgmlType::kQ4_1 || type == GgmlType::kQ5_1;
  const float min = has_min ? HalfToFloat(block + 2) : 0.0f;
  const uint8_t* rest = block + (has_min ? 4 : 2);
  const bool has_fifth = type == GgmlType::kQ5_0 || type == GgmlType::kQ5_1;
  const uint8_t* nibbles = rest + (has_fifth ? 4 : 0);
  for (int i = 0; i < 32; ++i) {
    if (type == GgmlType::kQ8_0) {
      out[i] = scale * static_cast<float>(static_cast<int8_t>(rest[i]));
      continue;
    }
    int code = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    if (has_fifth) code += (rest[i / 8] >> (i % 8) & 1) * 16;
    out[i] = scale * static_cast<float>(code + (has_min ? 0 : CodesOf(type).lowest)) + min;
  }
}

}  // namespace

bool IsFloatType(GgmlType type) {
  return type == GgmlType::kF32 || type == GgmlType::kF16 || type == GgmlType::kBf16;
}

bool IsKQuant(GgmlType type) {
  return type == GgmlType::kQ4_K || type == GgmlType::kQ5_K || type == GgmlType::kQ6_K;
}

CodeRange CodesOf(GgmlType type) {
  switch (type) {
    case GgmlType::kQ8_0:
      return {-128, 127};
    case GgmlType::kQ4_0:
      return {-8, 7};
    case GgmlType::kQ5_0:
      return {-16, 15};
    case GgmlType::kQ6_K:
      return {-32, 31};
    case GgmlType::kQ4_1:
    case GgmlType::kQ4_K:
      return {0, 15};
    case GgmlType::kQ5_1:
    case GgmlType::kQ5_K:
      return {0, 31};
    default:
      BATON_CHECK(false, "the type must be quantised");
  }
}

std::string EncodeBlock(GgmlType type, const BlockContents& contents) {
  const int count = IsKQuant(type) ? 256 : 32;
  const CodeRange range = CodesOf(type);
  Codes codes{};
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    BATON_CHECK(contents.codes[i] >= range.lowest && contents.codes[i] <= range.highest,
                "a code must be in the type's range");
    codes[i] = contents.codes[i] - range.lowest;
  }
  if (type == GgmlType::kQ6_K) return EncodeSixBits(contents, codes);

  std::string bytes;
  AppendHalf(contents.scale, bytes);
  if (type == GgmlType::kQ8_0) {
    for (size_t i = 0; i < 32; ++i) bytes.push_back(static_cast<char>(contents.codes[i]));
    return bytes;
  }
  if (type == GgmlType::kQ4_0 || type == GgmlType::kQ5_0) {
    if (type == GgmlType::kQ5_0) AppendFifthBits(codes, bytes);
    AppendNibbles(codes, 0, 16, 16, bytes);
    return bytes;
  }
  AppendHalf(contents.min, bytes);
  if (!IsKQuant(type)) {
    if (type == GgmlType::kQ5_1) AppendFifthBits(codes, bytes);
    AppendNibbles(codes, 0, 16, 16, bytes);
    return bytes;
  }
  AppendPartScales(contents, bytes);
  if (type == GgmlType::kQ5_K) {
    for (size_t i = 0; i < 32; ++i) {
      int bits = 0;
      for (size_t part = 0; part < 8; ++part) bits |= (codes[part * 32 + i] >> 4) << part;
      bytes.push_back(static_cast<char>(bits));
    }
  }
  for (int first = 0; first < 256; first += 64) AppendNibbles(codes, first, 32, 32, bytes);
  return bytes;
}

std::string EncodeFloat(GgmlType type, float value) {
  std::string bytes;
  if (type == GgmlType::kF32) {
    bytes.resize(sizeof(value));
    std::memcpy(bytes.data(), &value, sizeof(value));
  } else if (type == GgmlType::kF16) {
    AppendHalf(value, bytes);
  } else {
    const uint16_t upper = F32ToBf16(value);
    bytes.push_back(static_cast<char>(upper & 255));
    bytes.push_back(static_cast<char>(upper >> 8));
  }
  return bytes;
}

std::vector<float> DequantiseBlocks(GgmlType type, absl::Span<const uint8_t> bytes) {
  const GgmlBlock block = *GgmlBlockOf(type);
  const size_t blocks = bytes.size() / block.bytes;
  std::vector<float> out(blocks * block.elements);
  for (size_t i = 0; i < blocks; ++i) {
    const uint8_t* in = bytes.data() + i * block.bytes;
    float* values = out.data() + i * block.elements;
    if (type == GgmlType::kF32) {
      std::memcpy(values, in, sizeof(float));
    } else if (type == GgmlType::kF16) {
      *values = HalfToFloat(in);
    } else if (type == GgmlType::kBf16) {
      *values = std::bit_cast<float>(static_cast<uint32_t>(in[0] | in[1] << 8) << 16);
    } else if (type == GgmlType::kQ6_K) {
      DecodeSixBitK(in, values);
    } else if (IsKQuant(type)) {
      DecodeFourOrFiveBitK(type, in, values);
    } else {
      DecodeSimple(type, in, values);
    }
  }
  return out;
}

}  // namespace baton
