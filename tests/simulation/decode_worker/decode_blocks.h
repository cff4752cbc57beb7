// The KV blocks of a simulated decode worker: a real block pool, prefix cache and retained
// prefixes, the memory behind them, and who may write into which block.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/handoff/kv_blocks.h"
#include "common/kv/block_pool.h"
#include "common/kv/block_sources.h"
#include "common/kv/prefix_cache.h"
#include "common/kv/retained_prefixes.h"
#include "tests/simulation/sim.h"

namespace baton {

// A prefill worker, by the address that it is known under.
inline Forgers ForgerNamed(const std::string& address) { return Forgers{1} << (address[1] - '0'); }

class DecodeBlocks {
 public:
  // What a sequence has of the cache.
  struct Holding {
    BlockPool::Reservation reservation;
    std::vector<BlockPool::Block> blocks;
    KvBlocks memory;
    std::vector<uint32_t> generations;  // [block]
    size_t shared_blocks = 0;           // the first ones, pinned: never written
  };

  DecodeBlocks(Sim& sim, const KvLayout& layout);

  void Boot(const std::string& prefix_identity);
  void Crash();  // every Holding is gone before

  const KvLayout& layout() const { return layout_; }
  BlockPool& pool() { return *pool_; }
  const BlockPool& pool() const { return *pool_; }
  PrefixCache& prefix_cache() { return *prefix_cache_; }
  RetainedPrefixes& retained() { return *retained_; }
  const RetainedPrefixes& retained() const { return *retained_; }
  BlockSources& sources() { return *sources_; }
  const BlockSources& sources() const { return *sources_; }
  // Blocks of the prefix cache with the first of these tokens.
  std::vector<int32_t> Cached(const std::vector<int32_t>& token_ids) const {
    return prefix_cache_->Find(token_ids, "", {.computes = true});
  }

  // The first blocks of a sequence that has none. Returns how many of them somebody uses: those
  // need no reservation.
  int TakeCached(Holding& held, const std::vector<int32_t>& blocks);
  // Blocks without an owner whose content is kept, from the sequence's reservation.
  void TakeKept(Holding& held, const std::vector<int32_t>& blocks);
  // From the reservation, until there are enough for that many tokens.
  void TakeReserved(Holding& held, int tokens);
  // One block, from the reservation or else from the pool; false when there is none.
  bool TakeOne(Holding& held);
  // Enters the sequence's whole blocks into the prefix cache; all of `token_ids` are there.
  void Enter(Holding& held, const std::vector<int32_t>& token_ids);
  // The engine's BlockLedger::TakeAhead and SettleAhead: a block for guesses, which must be free;
  // then, of a sequence with a block ahead, what keeps it to as many blocks as if it had none.
  bool TakeAhead(Holding& held);
  void SettleAhead(Holding& held, int tokens);
  // A sibling with the same tokens: shares the blocks, and has a copy of the last one where it is
  // not full.
  void Fork(Holding& from, Holding& to, bool copies_last);
  void Move(Holding& from, Holding& to);
  void GiveBack(Holding& held);

  // Whether this sequence, and no other, may write into its block of that index.
  bool Owns(const Holding& held, size_t index) const;
  // Whether no other sequence reads it either.
  bool IsAlone(const Holding& held, size_t index) const;

  // Nobody finds any block any more, since what came from `source` is wrong.
  void Distrust(const std::string& source);
  // Whose KV nothing rests on.
  Forgers distrusted() const { return distrusted_; }

  // Takes most of the free blocks and writes into them; gives them back.
  void Squeeze();
  void Relax() { squeezed_.clear(); }

  // Whether all has been given back.
  void CheckAtRest(int worker);

 private:
  static constexpr int kPoolBlocks = 44;

  void TakeOwn(Holding& held, BlockPool::Block block);
  uint8_t* Bytes(int32_t block);

  Sim& sim_;
  const KvLayout layout_;
  std::vector<uint8_t> memory_;
  std::vector<const Holding*> owners_;  // [block]: who may write into it
  std::optional<BlockPool> pool_;
  std::optional<PrefixCache> prefix_cache_;
  std::optional<RetainedPrefixes> retained_;
  std::optional<BlockSources> sources_;
  Forgers distrusted_ = 0;
  std::vector<BlockPool::Block> squeezed_;
};

}  // namespace baton
