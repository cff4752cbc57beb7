// The KV blocks of a simulated prefill worker: a real block pool and prefix cache, the memory
// behind them with the CRC of each page, and which blocks messages point into.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/kv/prefix_cache.h"
#include "prefill_worker/send_machine.h"
#include "tests/simulation/sim.h"
#include "tests/simulation/sim_holding.h"

namespace baton {

class PrefillBlocks {
 public:
  PrefillBlocks(Sim& sim, const KvLayout& layout, int worker);

  void Boot(const std::string& prefix_identity);
  void Crash();  // every SimHolding is gone before

  const KvLayout& layout() const { return layout_; }
  BlockPool& pool() { return *pool_; }
  const BlockPool& pool() const { return *pool_; }
  PrefixCache& prefix_cache() { return *prefix_cache_; }
  // The blocks of the prefix cache with the first of these tokens, which are to be handed off.
  std::vector<int32_t> Cached(const std::vector<int32_t>& token_ids) const;
  // How many tokens that are.
  int HeldTokens(const std::vector<int32_t>& token_ids) const;

  // The blocks that a sequence begins with, the cached prefix among them, and a reservation for the
  // others; none and false when too few are free.
  bool Take(SimHolding& held, const std::vector<int32_t>& token_ids, bool take_cached);
  // Those of layers with a window for the tokens [first, end), which are computed next; false if
  // none is free for now.
  bool TakeForChunk(SimHolding& held, int first, int end);
  // Enters whole blocks into the prefix cache, up to that many tokens.
  void Enter(SimHolding& held, const std::vector<int32_t>& token_ids, int tokens);
  // The first `computed` of `tokens` tokens are there: gives back what no later one reads, and what
  // is not handed off.
  void GiveBackUnread(SimHolding& held, int computed, int tokens);
  void GiveBack(SimHolding& held);

  // The tokens of a layer were written: notes the CRCs of their pages.
  void Written(const SimHolding& held, int layer, int first, int end);
  // Whether the page still is what was written.
  bool IsAsWritten(const SimHolding& held, int layer, TokenRange page) {
    return PageCrc(held, layer, page.begin) == held.memory.PageCrc(layer, page);
  }
  // What the sender is told of them.
  SendEvent::LayerReady Ready(const SimHolding& held, int layer, int first, int end);

  // The blocks of these tokens in layers from `rows.layer` on, as a message points into them; until
  // they are released.
  std::vector<int32_t> HoldSlices(const SimHolding& held, const LayerTokens& rows, int layers);
  void ReleaseSlices(const std::vector<int32_t>& blocks);
  // Whether no block was given to somebody else since the sequence took it.
  bool Intact(const SimHolding& held) const;

  // Takes most of the free blocks and writes into them; gives them back.
  void Squeeze();
  void Relax() { squeezed_.clear(); }

  // Whether all has been given back.
  void CheckAtRest();

 private:
  static constexpr int kPoolBlocks = 90;  // a span has three

  uint32_t& PageCrc(const SimHolding& held, int layer, int token);
  int32_t BlockOf(const SimHolding& held, int layer, int token) const {
    return held.memory.block_table[held.EntryOf(layer, token)];
  }
  void CheckUnused(const BlockPool::Block& block);
  void TakeReserved(SimHolding& held, size_t entry);
  // The block of that span has given way to an equal one of the prefix cache.
  void Replace(SimHolding& held, size_t span, int tokens, PrefixCache::Replaced one);

  Sim& sim_;
  const KvLayout layout_;
  const int worker_;
  std::vector<uint8_t> memory_;
  std::vector<uint32_t> page_crcs_;  // [block][page]: a block has one layer
  std::vector<int> live_slices_;     // [block]: messages that point into it
  std::optional<BlockPool> pool_;
  std::optional<PrefixCache> prefix_cache_;
  std::vector<BlockPool::Block> squeezed_;
};

}  // namespace baton
