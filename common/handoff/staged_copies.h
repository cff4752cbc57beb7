// The list of copies between a sequence's blocks in a device's memory and a slot of KvStaging.
#pragma once

#include <algorithm>
#include <vector>

#include "common/backend/device_copies.h"
#include "common/handoff/kv_blocks.h"

namespace baton {

// The copies of K and V of the tokens of one layer, block by block: for
// each block its K rows, K scales, V rows and V scales. REQUIRES: `device` has the rows of the
// sequence's own blocks; `staged` has the tokens in one block.
inline std::vector<DeviceCopy> StagedCopies(const KvLayerRows& device, const KvLayerRows& staged,
                                            TokenRange tokens) {
  std::vector<DeviceCopy> copies;
  const KvLayout& layout = device.blocks->layout;
  const int block_size = layout.block_size;
  for (int token = tokens.begin; token < tokens.end;) {
    const int next = std::min(tokens.end, (token / block_size + 1) * block_size);
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      // Both sides have these tokens in one block, so each lambda is called once.
      device.ForEachBlock(part, {token, next}, [&](uint8_t* there, uint8_t* scales, size_t count) {
        staged.ForEachBlock(part, {token, next}, [&](uint8_t* here, uint8_t* scales_here, size_t) {
          copies.push_back({.device = there, .host = here, .bytes = count * layout.row_bytes()});
          if (layout.scale_bytes() == 0) return;
          copies.push_back(
              {.device = scales, .host = scales_here, .bytes = count * layout.scale_bytes()});
        });
      });
    }
    token = next;
  }
  return copies;
}

}  // namespace baton
