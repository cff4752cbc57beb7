// The KV of one sequence in a draft model's cache.
#pragma once

#include <cstdint>
#include <vector>

#include "common/kv/block_pool.h"

namespace baton {

// The blocks of a draft model's own cache that hold K and V of a sequence's tokens. Only the draft
// model changes it. It gives its blocks back when it is destroyed, so it must not outlive the draft
// model. Nothing but speed depends on it, so it may be replaced by an empty one at any time.
struct DraftKv {
  std::vector<BlockPool::Block> held;
  std::vector<int32_t> table;   // ids of `held`
  std::vector<int32_t> tokens;  // the tokens whose K and V are there, from the sequence's begin on
};

}  // namespace baton
