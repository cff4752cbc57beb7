// The CRCs of the KV pages that a step has filled.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"

#include "common/kv/cache.h"

namespace baton {

// For tokens [first_token, end_token) of one layer; a last page that is not full gets the CRC of
// what it has. REQUIRES: first_token is a multiple of kKvPageTokens.
inline void StorePageCrcs(KvCache& cache, absl::Span<const int32_t> block_table, int layer,
                          int first_token, int end_token) {
  const int pages_per_block = cache.layout().pages_per_block();
  for (int token = first_token; token < end_token; token += kKvPageTokens) {
    const int page = token / kKvPageTokens;
    const int32_t block = block_table[static_cast<size_t>(page / pages_per_block)];
    const int page_in_block = page % pages_per_block;
    cache.PageCrc(block, layer, page_in_block) = cache.ComputePageCrc(
        block, layer, page_in_block, std::min(kKvPageTokens, end_token - token));
  }
}

}  // namespace baton
