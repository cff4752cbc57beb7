// The element types of KV in a cache and in messages. Needs no Abseil, so that CUDA sources may
// include it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton {

// Tokens per page: what a CRC covers and what a prefix is found by. Block sizes are its multiples.
inline constexpr int kKvPageTokens = 16;

// The elements of int8 and fp8 are codes of one byte, which have a float32 scale for each token and
// KV head beside them (common/backend/kv_codes.h). Those of int4 are codes of half a byte, which
// have a float16 scale for each kKvGroup elements of a head (common/base/kv_int4.h).
enum class KvType : uint8_t { kF32, kF16, kBf16, kInt8, kFp8, kInt4 };
inline constexpr KvType kAllKvTypes[] = {KvType::kF32,  KvType::kF16, KvType::kBf16,
                                         KvType::kInt8, KvType::kFp8, KvType::kInt4};

// Elements of a head that share a scale in int4.
inline constexpr int kKvGroup = 32;

[[gnu::always_inline]] constexpr bool IsQuantised(KvType type) {
  return type == KvType::kInt8 || type == KvType::kFp8 || type == KvType::kInt4;
}
// Whether a cache of this type holds rotated heads (common/base/kv_int4.h).
[[gnu::always_inline]] constexpr bool IsRotated(KvType type) { return type == KvType::kInt4; }
// Whether a cache of this type may have heads of this dimension.
constexpr bool TakesHeadDim(KvType type, size_t head_dim) {
  return type != KvType::kInt4 || head_dim % kKvGroup == 0;
}
// Bytes of the elements of one head of one token. REQUIRES: TakesHeadDim(type, head_dim).
[[gnu::always_inline]] constexpr size_t KvHeadBytes(KvType type, size_t head_dim) {
  if (type == KvType::kInt4) return head_dim / 2;
  return head_dim * (type == KvType::kF32 ? 4 : IsQuantised(type) ? 1 : 2);
}
// Bytes of the scales of one head of one token; 0 in the float types. REQUIRES as KvHeadBytes.
[[gnu::always_inline]] constexpr size_t KvScaleBytes(KvType type, size_t head_dim) {
  if (type == KvType::kInt4) return head_dim / kKvGroup * sizeof(uint16_t);
  return IsQuantised(type) ? sizeof(float) : 0;
}
// Bytes of one token's K and V in all layers, scales included.
constexpr size_t KvTokenBytes(KvType type, size_t layers, size_t kv_heads, size_t head_dim) {
  return 2 * layers * kv_heads * (KvHeadBytes(type, head_dim) + KvScaleBytes(type, head_dim));
}

}  // namespace baton
