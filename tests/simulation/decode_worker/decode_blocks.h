// The KV blocks of a simulated decode worker: a real block pool, prefix cache and retained
// prefixes, the memory behind them, and who may write into which block.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/kv/block_sources.h"
#include "common/kv/prefix_cache.h"
#include "common/kv/retained_prefixes.h"
#include "tests/simulation/sim.h"
#include "tests/simulation/sim_holding.h"

namespace baton {

// A prefill worker, by the address that it is known under.
inline Forgers ForgerNamed(const std::string& address) { return Forgers{1} << (address[1] - '0'); }

class DecodeBlocks {
 public:
  DecodeBlocks(Sim& sim, const KvLayout& layout);

  void Boot(const std::string& prefix_identity);
  void Crash();  // every SimHolding is gone before

  const KvLayout& layout() const { return layout_; }
  BlockPool& pool() { return *pool_; }
  const BlockPool& pool() const { return *pool_; }
  PrefixCache& prefix_cache() { return *prefix_cache_; }
  RetainedPrefixes& retained() { return *retained_; }
  const RetainedPrefixes& retained() const { return *retained_; }
  BlockSources& sources() { return *sources_; }
  const BlockSources& sources() const { return *sources_; }
  // Blocks of the prefix cache with the first of these tokens, as far as they serve `need`.
  std::vector<int32_t> Cached(const std::vector<int32_t>& token_ids, const KvNeed& need) const {
    return prefix_cache_->Find(token_ids, "", need);
  }
  // The tokens of whole spans of a block table.
  int TokensOf(const std::vector<int32_t>& table) const {
    return static_cast<int>(table.size()) / layout_.groups.count() * layout_.block_size;
  }
  // The most blocks that a sequence of so many tokens has at once, computed here or pushed.
  int BlocksForTokens(int tokens, bool computed_here) const;
  // How many of these blocks somebody uses, so that they cost a sequence nothing. One that computes
  // takes others in place of those that it gives back behind a window.
  int UsedOf(const std::vector<int32_t>& table, bool computes) const;

  // The first blocks of a sequence that has none. They need a reservation, but those in use.
  void TakeCached(SimHolding& held, const std::vector<int32_t>& blocks);
  // Blocks without an owner whose content is kept, from the sequence's reservation.
  void TakeKept(SimHolding& held, const std::vector<int32_t>& blocks);
  // From the reservation, until there are enough for that many tokens: in layers with a window
  // those that a push carries, or none.
  void TakeReserved(SimHolding& held, int tokens, bool pushed);
  // Those for the tokens [first, end), which are computed next; false if none is free for now.
  bool TakeForChunk(SimHolding& held, int first, int end);
  // Blocks for one span, from the reservation or else from the pool; false when there are none.
  bool TakeSpan(SimHolding& held);
  // Enters the sequence's whole blocks into the prefix cache; the first `tokens` of `token_ids` are
  // there. `handed_off`: as in PrefixCache::Insert.
  void Enter(SimHolding& held, const std::vector<int32_t>& token_ids, int tokens, int handed_off);
  // The first `computed` tokens are there: gives back what no later one reads. The first `tokens`
  // are computed in chunks, for which it takes others.
  void GiveBackUnread(SimHolding& held, int computed, int tokens = 0);
  // The engine's BlockLedger::TakeAhead and SettleAhead: a span for guesses, which must be free;
  // then, of a sequence with a span ahead, what keeps it to as many blocks as if it had none.
  bool TakeAhead(SimHolding& held);
  void SettleAhead(SimHolding& held, int tokens);
  // A sibling with the same tokens: shares the blocks, and has a copy of the last span's if it
  // is not full.
  void Fork(SimHolding& from, SimHolding& to, bool copies_last);
  void Move(SimHolding& from, SimHolding& to);
  void GiveBack(SimHolding& held);

  // Whether this sequence, and no other, may write into its block of that entry.
  bool Owns(const SimHolding& held, size_t entry) const;
  // Whether no other sequence reads it either.
  bool IsAlone(const SimHolding& held, size_t entry) const;

  // Nobody finds any block any more, since what came from `source` is wrong.
  void Distrust(const std::string& source);
  // Workers on whose KV nothing rests.
  Forgers distrusted() const { return distrusted_; }

  // Takes most of the free blocks and writes into them; gives them back.
  void Squeeze();
  void Relax() { squeezed_.clear(); }

  // Whether all has been given back.
  void CheckAtRest(int worker);

 private:
  static constexpr int kPoolBlocks = 102;  // a span has three

  void TakeOwn(SimHolding& held, size_t entry, BlockPool::Block block);
  // The block of that entry is this sequence's no more.
  void Disown(const SimHolding& held, size_t entry);
  uint8_t* Bytes(int32_t block);

  Sim& sim_;
  const KvLayout layout_;
  std::vector<uint8_t> memory_;
  std::vector<const SimHolding*> owners_;  // [block]: who may write into it
  std::optional<BlockPool> pool_;
  std::optional<PrefixCache> prefix_cache_;
  std::optional<RetainedPrefixes> retained_;
  std::optional<BlockSources> sources_;
  Forgers distrusted_ = 0;
  std::vector<BlockPool::Block> squeezed_;
};

}  // namespace baton
