// Where the bytes of a KV block are.
//
// A block is one contiguous region of `block_size` tokens: [layer][K, V], each the rows
// [token][kv head][head dim], then in the quantised types the scales [token][kv head]. So one layer
// of a block is contiguous, and so are the rows, and the scales, of following tokens: the order of
// the wire (common/rpc/kv_wire_type.h). The scales are not among the rows because they would break
// their alignment to 16 bytes.
//
// Coverage, hashes and CRCs are by pages: 16 tokens at a multiple of 16 (the last page of a
// sequence may be shorter). A page in a layer is its K rows, K scales, V rows, V scales.
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

  // Bytes of one token's K (or V) in one layer: its row, and its scales (0 in the float types).
  size_t row_bytes() const { return part().row_bytes(); }
  size_t scale_bytes() const { return part().scale_bytes(); }
  // 2 x layers x kv heads x (head dim x element bytes + scale).
  size_t bytes_per_token() const {
    return 2 * static_cast<size_t>(layers) * (row_bytes() + scale_bytes());
  }
  // One layer of a block, K and V.
  size_t layer_bytes() const { return 2 * part().bytes(); }
  size_t block_bytes() const { return static_cast<size_t>(layers) * layer_bytes(); }
  int pages_per_block() const { return block_size / kKvPageTokens; }
  int BlocksFor(int tokens) const { return (tokens + block_size - 1) / block_size; }

  enum Part : size_t { kKeys = 0, kValues = 1 };
  // Offset in its block of token `token_in_block`'s K or V row in `layer`; the rows of following
  // tokens in the block follow without a gap.
  size_t RowOffset(int layer, Part part_of_layer, int token_in_block) const {
    return PartOffset(layer, part_of_layer) + part().RowOffset(token_in_block);
  }
  // The same of its scales (of none where scale_bytes() is 0).
  size_t ScaleOffset(int layer, Part part_of_layer, int token_in_block) const {
    return PartOffset(layer, part_of_layer) + part().ScaleOffset(token_in_block);
  }
  friend bool operator==(const KvLayout&, const KvLayout&) = default;

 private:
  KvPartShape part() const { return {block_size, kv_heads, head_dim, dtype}; }
  size_t PartOffset(int layer, Part part_of_layer) const {
    return (static_cast<size_t>(layer) * 2 + static_cast<size_t>(part_of_layer)) * part().bytes();
  }
};

// Pages that `tokens` tokens from position 0 touch.
inline int KvPages(int tokens) { return (tokens + kKvPageTokens - 1) / kKvPageTokens; }

}  // namespace baton
