// Quantises blocks of 32 weights as ggml's reference does: PyPI's gguf makes the same bytes, and so
// does every machine. A block's scale is chosen in float32 and stored as F16; the codes are those
// of the scale before it is rounded. REQUIRES: the weights are finite; no FTZ/DAZ.
#pragma once

#include <cstdint>

namespace baton {

inline constexpr int kQuantisedBlock = 32;  // weights

// Scale: the largest magnitude / 127. Codes: the nearest integers, halves away from zero. Writes 34
// bytes: the scale, then the codes.
void QuantiseQ8_0(const float* weights, uint8_t* block);

// Scale: the weight of the largest magnitude, the first of several, / -8. Codes: the nearest
// integers from -8 to 7, stored plus 8. Writes 18 bytes: the scale, then 16 bytes with the code of
// weight j in the low bits and that of weight j + 16 in the high bits.
void QuantiseQ4_0(const float* weights, uint8_t* block);

}  // namespace baton
