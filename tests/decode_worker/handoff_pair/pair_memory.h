// The blocks of one side of a HandoffPair, and what the bytes of each row must be.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/handoff/kv_blocks.h"
#include "common/kv/staging.h"
#include "tests/decode_worker/handoff_pair/pair_run.h"
#include "tests/support/late_backend.h"

namespace baton {

struct PairMemory {
  static constexpr int kPool = 44;          // blocks of each side
  static constexpr uint8_t kCanary = 0xA5;  // in every byte that nobody wrote

  // With `staging_pages` of 0 the blocks are in the host's memory, else in a device's. The layers
  // with a window have blocks only for the tokens that the hand-off carries.
  PairMemory(PairRun& run, int block_size, int staging_pages);

  std::unique_ptr<LateBackend> backend;  // a device's; null without one, as the next two
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<KvStaging> staging;
  std::vector<uint8_t> host;
  KvBlocks blocks;  // where the bytes are
  KvBlocks device;  // where the device has them
};

KvLayout PairLayout(int block_size, const std::vector<int>& windows = {});

// A function of the token and its place, so a misplaced row is seen.
uint8_t PairByte(int layer, int part, int token, size_t byte);
// Writes the right bytes of the first `end` of `tokens` tokens, as far as a hand-off carries them.
void FillRight(const KvBlocks& blocks, int tokens, int end);

}  // namespace baton
