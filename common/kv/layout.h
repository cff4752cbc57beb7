// Where the bytes of a KV block are.
//
// A block is one contiguous region [layer][K, V][token][kv head][head dim] of `block_size` tokens.
// Coverage, hashes and CRCs are by pages: 16 tokens at a multiple of 16 (the last page of a
// sequence may be shorter).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/tensor.h"

namespace baton {

// Tokens per page; block sizes are multiples of it.
inline constexpr int kKvPageTokens = 16;

struct KvLayout {
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int block_size = 32;  // tokens
  KvDtype dtype = KvDtype::kF16;

  size_t element_bytes() const { return dtype == KvDtype::kF32 ? 4 : 2; }
  // Bytes of one token's K (or V) in one layer.
  size_t row_bytes() const {
    return static_cast<size_t>(kv_heads) * static_cast<size_t>(head_dim) * element_bytes();
  }
  // 2 x layers x kv heads x head dim x element bytes.
  size_t bytes_per_token() const { return 2 * static_cast<size_t>(layers) * row_bytes(); }
  size_t block_bytes() const { return bytes_per_token() * static_cast<size_t>(block_size); }
  int pages_per_block() const { return block_size / kKvPageTokens; }
  int BlocksFor(int tokens) const { return (tokens + block_size - 1) / block_size; }

  enum Part : size_t { kKeys = 0, kValues = 1 };
  // Offset in its block of token `token_in_block`'s K or V row in `layer`; the rows of following
  // tokens in the block follow without a gap.
  size_t RowOffset(int layer, Part part, int token_in_block) const {
    return ((static_cast<size_t>(layer) * 2 + static_cast<size_t>(part)) * static_cast<size_t>(block_size) +
            static_cast<size_t>(token_in_block)) *
           row_bytes();
  }
  friend bool operator==(const KvLayout&, const KvLayout&) = default;
};

// Pages that `tokens` tokens from position 0 touch.
inline int KvPages(int tokens) { return (tokens + kKvPageTokens - 1) / kKvPageTokens; }

}  // namespace baton
