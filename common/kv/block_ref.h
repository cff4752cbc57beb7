// Names a block of the KV cache and one of its lives.
#pragma once

#include <cstdint>

namespace baton {

// A block is given out again and again. `generation` names which of these lives is meant
// (BlockPool::generation). It names the block only: it holds no reference to it.
struct BlockRef {
  int32_t id = 0;
  uint32_t generation = 0;
};

}  // namespace baton
