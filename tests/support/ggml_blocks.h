// The blocks of ggml's weight types: their bytes from chosen contents, and their meaning as floats,
// written from the format's definition and apart from the product's code.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/gguf/ggml_type.h"

namespace baton {

// Every type that a weight may have.
inline constexpr GgmlType kWeightTypes[] = {GgmlType::kF32,  GgmlType::kF16,  GgmlType::kBf16,
                                            GgmlType::kQ8_0, GgmlType::kQ4_0, GgmlType::kQ4_1,
                                            GgmlType::kQ5_0, GgmlType::kQ5_1, GgmlType::kQ4_K,
                                            GgmlType::kQ5_K, GgmlType::kQ6_K};

bool IsFloatType(GgmlType type);
// Blocks of 256 values with scales of their own for parts of 32 or 16.
bool IsKQuant(GgmlType type);

// The codes of a quantised type, as what the scale is multiplied with.
struct CodeRange {
  int lowest;
  int highest;
};
CodeRange CodesOf(GgmlType type);

// One block of a quantised type. A value is
//   Q8_0, Q4_0, Q5_0:  scale * code
//   Q4_1, Q5_1:        scale * code + min
//   Q4_K, Q5_K:        scale * part_scale * code - min * part_min, in parts of 32
//   Q6_K:              scale * part_scale * code, in parts of 16
struct BlockContents {
  float scale = 0;                    // stored as F16
  float min = 0;                      // stored as F16
  std::array<int, 16> part_scales{};  // Q4_K, Q5_K: 8 of 0..63; Q6_K: 16 of -128..127
  std::array<int, 8> part_mins{};     // 0..63
  std::array<int, 256> codes{};       // the first 32 in the other types
};

// The block's bytes in a file. REQUIRES: a quantised type, numbers in their ranges.
std::string EncodeBlock(GgmlType type, const BlockContents& contents);
// One value of a float type, rounded to it.
std::string EncodeFloat(GgmlType type, float value);

// What the bytes of whole blocks mean, [values]. REQUIRES: one of kWeightTypes.
std::vector<float> DequantiseBlocks(GgmlType type, absl::Span<const uint8_t> bytes);

}  // namespace baton
