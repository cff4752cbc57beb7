// The blocks of ggml's weight types: their bytes for chosen contents, and their values as floats.
// Written from the definition of the formats, independently of the product's code.
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
// Whether a type has blocks of 256 values with further scales for each 32 or 16 of them.
bool IsKQuant(GgmlType type);

// The range of the signed codes of a quantised type, with which the scale is multiplied.
struct CodeRange {
  int lowest;
  int highest;
};
CodeRange CodesOf(GgmlType type);

// The contents of one block of a quantised type. Its values are
//   Q8_0, Q4_0, Q5_0:  scale * code
//   Q4_1, Q5_1:        scale * code + min
//   Q4_K, Q5_K:        scale * part_scale * code - min * part_min; a part is 32 values
//   Q6_K:              scale * part_scale * code; a part is 16 values
struct BlockContents {
  float scale = 0;                    // stored as F16
  float min = 0;                      // stored as F16
  std::array<int, 16> part_scales{};  // Q4_K, Q5_K: 8 of 0..63; Q6_K: 16 of -128..127
  std::array<int, 8> part_mins{};     // 0..63
  std::array<int, 256> codes{};       // the first 32 in the other types
};

// The bytes of the block in a file. REQUIRES: a quantised type; all numbers are in their ranges.
std::string EncodeBlock(GgmlType type, const BlockContents& contents);
// The bytes of one value, rounded to a float type.
std::string EncodeFloat(GgmlType type, float value);

// The values of whole blocks, [values]. REQUIRES: one of kWeightTypes.
std::vector<float> DequantiseBlocks(GgmlType type, absl::Span<const uint8_t> bytes);

}  // namespace baton
