// What to copy between the blocks of a sequence in a device's memory and a slot of KvStaging.
#pragma once

#include <algorithm>
#include <vector>

#include "common/backend/device_copies.h"
#include "common/rpc/kv_blocks.h"

namespace baton {

// K and V of the tokens [first_token, end_token) of one layer, block by block: a block's K and V
// follow each other. REQUIRES: `device` are the rows of the sequence's own blocks; `staged` has the
// tokens in one block.
inline std::vector<DeviceCopy> StagedCopies(const KvLayerRows& device, const KvLayerRows& staged,
                                            int first_token, int end_token) {
  std::vector<DeviceCopy> copies;
  const int block_size = device.blocks->layout.block_size;
  for (int token = first_token; token < end_token;) {
    const int next = std::min(end_token, (token / block_size + 1) * block_size);
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      device.ForEachRun(part, token, next, [&](uint8_t* there, size_t bytes) {
        staged.ForEachRun(part, token, next, [&](uint8_t* here, size_t) {
          copies.push_back({.device = there, .host = here, .bytes = bytes});
        });
      });
    }
    token = next;
  }
  return copies;
}

}  // namespace baton
