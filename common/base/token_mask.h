// The tokens of a vocabulary that may come next, as bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton {

// Words of a mask over a vocabulary: bit `id % 32` of word `id / 32` is one if the token may come
// next.
constexpr size_t MaskWords(int32_t vocab_size) {
  return (static_cast<size_t>(vocab_size) + 31) / 32;
}

// Whether the token may come next. REQUIRES: its word is in the mask.
constexpr bool MaskAllows(const uint32_t* mask, int32_t token) {
  return (mask[token / 32] >> (token % 32) & 1) != 0;
}

// Takes the token out of the mask. REQUIRES: its word is in the mask.
constexpr void RemoveFromMask(uint32_t* mask, int32_t token) {
  mask[token / 32] &= ~(uint32_t{1} << (token % 32));
}

}  // namespace baton
