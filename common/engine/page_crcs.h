// Stores the CRCs of the KV pages that a step has filled.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"

#include "common/kv/cache.h"

namespace baton {

// Stores the CRCs of the pages in `layer` that tokens [first_token, end_token) begin or complete. A
// last page that begins here and is not full gets the CRC of the tokens it has. A cache that the
// host cannot read is left alone: its pages get their CRCs when they are staged.
// Thread rule: KvCache's.
inline void StorePageCrcs(KvCache& cache, absl::Span<const int32_t> block_table, int layer,
                          int first_token, int end_token) {
  if (!cache.host_memory()) return;
  for (int page = first_token / kKvPageTokens; page < KvPages(end_token); ++page) {
    const int begin = page * kKvPageTokens;
    const int tokens = std::min(kKvPageTokens, end_token - begin);
    if (begin < first_token && tokens < kKvPageTokens) continue;
    const int32_t block = block_table[cache.layout().TableIndex(layer, begin)];
    const int page_in_block = page % cache.layout().pages_per_block();
    cache.PageCrc(block, layer, page_in_block) =
        cache.ComputePageCrc(block, layer, page_in_block, tokens);
  }
}

}  // namespace baton
