// The KV blocks of a simulated prefill worker: a real block pool and prefix cache, the memory
// behind them with the CRC of each page, and which blocks messages point into.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/handoff/kv_blocks.h"
#include "common/kv/block_pool.h"
#include "common/kv/prefix_cache.h"
#include "prefill_worker/send_machine.h"
#include "tests/simulation/sim.h"

namespace baton {

class PrefillBlocks {
 public:
  // What a sequence has of the cache.
  struct Holding {
    std::vector<BlockPool::Block> blocks;
    std::vector<BlockPool::Block>
        replaced;               // by equal ones of the prefix cache; the peer reads them
    size_t entered_blocks = 0;  // in the prefix cache
    KvBlocks memory;
    std::vector<uint32_t> generations;  // [block]
  };

  PrefillBlocks(Sim& sim, const KvLayout& layout, int worker);

  void Boot(const std::string& prefix_identity);
  void Crash();  // every Holding is gone before

  const KvLayout& layout() const { return layout_; }
  BlockPool& pool() { return *pool_; }
  const BlockPool& pool() const { return *pool_; }
  PrefixCache& prefix_cache() { return *prefix_cache_; }
  // How many of these tokens the prefix cache holds.
  int HeldTokens(const std::vector<int32_t>& token_ids) const;

  // All blocks of a sequence, the cached prefix among them; none and false when too few are free.
  bool Take(Holding& held, const std::vector<int32_t>& token_ids, bool take_cached);
  // Enters whole blocks into the prefix cache, up to that many tokens.
  void Enter(Holding& held, const std::vector<int32_t>& token_ids, int tokens);
  void GiveBack(Holding& held);

  // The tokens of a layer were written: notes the CRCs of their pages.
  void Written(const Holding& held, int layer, int first, int end);
  // What the sender is told of them.
  SendEvent::LayerReady Ready(const Holding& held, int layer, int first, int end);

  // The blocks of these tokens, as a message points into them; until they are released.
  std::vector<int32_t> HoldSlices(const Holding& held, int first, int end);
  void ReleaseSlices(const std::vector<int32_t>& blocks);
  // Whether no block was given to somebody else since the sequence took it.
  bool Intact(const Holding& held) const;

  // Takes most of the free blocks and writes into them; gives them back.
  void Squeeze();
  void Relax() { squeezed_.clear(); }

  // Whether all has been given back.
  void CheckAtRest();

 private:
  static constexpr int kPoolBlocks = 40;

  uint32_t& PageCrc(const Holding& held, int layer, int token);
  int32_t BlockOf(const Holding& held, int token) const {
    return held.memory.block_table[static_cast<size_t>(token / layout_.block_size)];
  }
  void CheckUnused(const BlockPool::Block& block);

  Sim& sim_;
  const KvLayout layout_;
  const int worker_;
  std::vector<uint8_t> memory_;
  std::vector<uint32_t> page_crcs_;  // [block][layer][page]
  std::vector<int> live_slices_;     // [block]: messages that point into it
  std::optional<BlockPool> pool_;
  std::optional<PrefixCache> prefix_cache_;
  std::vector<BlockPool::Block> squeezed_;
};

}  // namespace baton
