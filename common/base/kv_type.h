// The element types of KV in a cache and in messages. Needs no Abseil, so that CUDA sources may
// include it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton {

// Tokens per page: what a CRC covers and what a prefix is found by. Block sizes are its multiples.
inline constexpr int kKvPageTokens = 16;

// The elements of int8 and fp8 are codes of one byte, which have a float32 scale for each token and
// KV head beside them (common/backend/kv_codes.h).
enum class KvType : uint8_t { kF32, kF16, kBf16, kInt8, kFp8 };
inline constexpr KvType kAllKvTypes[] = {KvType::kF32, KvType::kF16, KvType::kBf16, KvType::kInt8,
                                         KvType::kFp8};

constexpr bool IsQuantised(KvType type) { return type == KvType::kInt8 || type == KvType::kFp8; }
// Bytes of one element.
constexpr size_t KvElementBytes(KvType type) {
  return type == KvType::kF32 ? 4 : IsQuantised(type) ? 1 : 2;
}
// Bytes of the scale of one head of one token; 0 in the float types.
constexpr size_t KvScaleBytes(KvType type) { return IsQuantised(type) ? sizeof(float) : 0; }
// Bytes of one token's K and V in all layers, scales included.
constexpr size_t KvTokenBytes(KvType type, size_t layers, size_t kv_heads, size_t head_dim) {
  return 2 * layers * kv_heads * (head_dim * KvElementBytes(type) + KvScaleBytes(type));
}

}  // namespace baton
