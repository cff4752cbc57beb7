// The layout of the bytes of a KV block.
//
// A block is one contiguous region for `block_size` tokens of the layers of one group
// (common/base/kv_layer_groups.h):
//
//   [layer of the group][K, V], and in each of these
//     rows    [token][kv head][head dim]
//     scales  [token][kv head]            only in int8 and fp8
//     scales  [token][kv head][group]     only in int4
//
// So one layer of a block is contiguous, and so are the rows, and the scales, of consecutive
// tokens. This is the wire's order too (common/handoff/kv_wire_type.h). The scales do not stand
// among the rows because they would break the rows' alignment to 16 bytes.
//
// Coverage, hashes and CRCs go by pages. A page is 16 tokens from a multiple of 16 on; the last
// page of a sequence may be shorter. In one layer its order is K rows, K scales, V rows, V scales.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/tensor.h"
#include "common/base/kv_layer_groups.h"
#include "common/base/kv_type.h"

namespace baton {

// An entry of a block table without a block.
inline constexpr int32_t kNoBlock = -1;

struct KvLayout {
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int block_size = 32;  // tokens of a block
  KvType dtype = KvType::kF16;
  KvLayerGroups groups = {};

  // Bytes of one token's K (or V) in one layer: of its row, and of its scales (0 in float types).
  size_t row_bytes() const { return part().row_bytes(); }
  size_t scale_bytes() const { return part().scale_bytes(); }
  // Bytes of a token's K and V in all layers.
  size_t bytes_per_token() const {
    return KvTokenBytes(dtype, static_cast<size_t>(layers), static_cast<size_t>(kv_heads),
                        static_cast<size_t>(head_dim));
  }
  // Bytes of one layer of a block, K and V.
  size_t layer_bytes() const { return 2 * part().bytes(); }
  size_t block_bytes() const { return static_cast<size_t>(layers_per_block()) * layer_bytes(); }
  int layers_per_block() const { return groups.SlotsOf(layers); }
  int pages_per_block() const { return block_size / kKvPageTokens; }

  // A sequence's tokens are cut into spans of block_size tokens. Its block table is
  // [spans][groups.count()]. An entry may be kNoBlock if no token reads the block any more.
  int BlocksFor(int tokens) const { return (tokens + block_size - 1) / block_size; }
  int TableEntriesFor(int tokens) const { return BlocksFor(tokens) * groups.count(); }
  // The index in the table of the block that holds `token` in `layer`.
  size_t TableIndex(int layer, int token) const {
    return static_cast<size_t>(token / block_size) * static_cast<size_t>(groups.count()) +
           static_cast<size_t>(groups.GroupOf(layer));
  }

  enum Part : size_t { kKeys = 0, kValues = 1 };
  // Offset in bytes, from the block's begin, of the K or V row of token `token_in_block` in
  // `layer`. The rows of the block's next tokens follow without a gap.
  size_t RowOffset(int layer, Part part_of_layer, int token_in_block) const {
    return PartOffset(layer, part_of_layer) + part().RowOffset(token_in_block);
  }
  // Offset of that token's scales. Where scale_bytes() is 0 no scales are there.
  size_t ScaleOffset(int layer, Part part_of_layer, int token_in_block) const {
    return PartOffset(layer, part_of_layer) + part().ScaleOffset(token_in_block);
  }
  friend bool operator==(const KvLayout&, const KvLayout&) = default;

 private:
  KvPartShape part() const { return {block_size, kv_heads, head_dim, dtype}; }
  size_t PartOffset(int layer, Part part_of_layer) const {
    const auto slot = static_cast<size_t>(groups.SlotOf(layer));
    return (slot * 2 + static_cast<size_t>(part_of_layer)) * part().bytes();
  }
};

// The number of pages that `tokens` tokens from position 0 on touch.
inline int KvPages(int tokens) { return (tokens + kKvPageTokens - 1) / kKvPageTokens; }

}  // namespace baton
