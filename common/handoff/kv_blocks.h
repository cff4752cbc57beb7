// The K and V rows of a sequence's tokens in its blocks. Payloads are made from these rows and
// copied into them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/crc32c.h"
#include "common/kv/layout.h"
#include "common/kv/token_range.h"

namespace baton {

// The blocks of one sequence, which it borrows. Any thread may use it while the blocks are held.
struct KvBlocks {
  uint8_t* base = nullptr;  // address of block 0; blocks follow each other
  KvLayout layout;
  std::vector<int32_t> block_table;  // see KvLayout::BlocksFor

  // The K or V row of a token in a layer [layout.row_bytes()]. REQUIRES: the block table reaches
  // it.
  uint8_t* Row(int layer, KvLayout::Part part, int token) const {
    return Block(layer, token) + layout.RowOffset(layer, part, token % layout.block_size);
  }

  // The scales of that row [layout.scale_bytes()].
  uint8_t* Scales(int layer, KvLayout::Part part, int token) const {
    return Block(layer, token) + layout.ScaleOffset(layer, part, token % layout.block_size);
  }

  // Calls visit(rows, scales, count) for K or V of the tokens, once for each block.
  template <typename Visit>
  void ForEachBlock(int layer, KvLayout::Part part, TokenRange tokens, const Visit& visit) const {
    for (int token = tokens.begin; token < tokens.end;) {
      const int next = std::min(tokens.end, (token / layout.block_size + 1) * layout.block_size);
      visit(Row(layer, part, token), Scales(layer, part, token), static_cast<size_t>(next - token));
      token = next;
    }
  }

  // Calls visit(first byte, bytes) for K or V of the tokens in the order of the wire:
  // the rows, once for each block, then their scales, if any, in the same way.
  template <typename Visit>
  void ForEachByteRange(int layer, KvLayout::Part part, TokenRange tokens,
                        const Visit& visit) const {
    ForEachBlock(layer, part, tokens, [&](uint8_t* rows, uint8_t*, size_t count) {
      visit(rows, count * layout.row_bytes());
    });
    if (layout.scale_bytes() == 0) return;
    ForEachBlock(layer, part, tokens, [&](uint8_t*, uint8_t* scales, size_t count) {
      visit(scales, count * layout.scale_bytes());
    });
  }

  // CRC32C of the tokens of one page, computed from their bytes now: K rows, K scales, V rows, V
  // scales.
  uint32_t PageCrc(int layer, TokenRange page) const {
    uint32_t crc = 0;
    const auto extend = [&crc](const uint8_t* bytes, size_t size) {
      crc = ExtendCrc32c(crc, bytes, size);
    };
    ForEachByteRange(layer, KvLayout::kKeys, page, extend);
    ForEachByteRange(layer, KvLayout::kValues, page, extend);
    return crc;
  }

 private:
  uint8_t* Block(int layer, int token) const {
    // tests/planted_bugs: rows_of_another_group
    const int32_t block = block_table[layout.TableIndex(layer, token)];
    return base + static_cast<size_t>(block) * layout.block_bytes();
  }
};

// The rows of one layer of a sequence: in its blocks, or, from `first_token` on, in other memory
// that is laid out as a block (a slot of KvStaging). Borrows the blocks. Layers and tokens in its
// functions are the sequence's.
struct KvLayerRows {
  const KvBlocks* blocks = nullptr;
  int layer = 0;            // layer of the sequence
  int layer_in_blocks = 0;  // number of that layer in `blocks`
  int first_token = 0;      // token of the sequence that is token 0 in `blocks`

  template <typename Visit>
  void ForEachBlock(KvLayout::Part part, TokenRange tokens, const Visit& visit) const {
    blocks->ForEachBlock(layer_in_blocks, part, InBlocks(tokens), visit);
  }
  template <typename Visit>
  void ForEachByteRange(KvLayout::Part part, TokenRange tokens, const Visit& visit) const {
    blocks->ForEachByteRange(layer_in_blocks, part, InBlocks(tokens), visit);
  }
  uint32_t PageCrc(TokenRange page) const {
    return blocks->PageCrc(layer_in_blocks, InBlocks(page));
  }
  TokenRange InBlocks(TokenRange tokens) const {
    return {tokens.begin - first_token, tokens.end - first_token};
  }
};
// The rows of `layer` in the sequence's own blocks.
inline KvLayerRows RowsOfLayer(const KvBlocks& blocks, int layer) {
  return {.blocks = &blocks, .layer = layer, .layer_in_blocks = layer};
}

}  // namespace baton
