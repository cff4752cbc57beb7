// What a simulated sequence has of its worker's KV blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/handoff/kv_blocks.h"
#include "common/kv/block_pool.h"

namespace baton {

// A block table as an engine's BlockLedger keeps it: a layer without a window has a block for each
// span of tokens, one with a window has those that are still read.
struct SimHolding {
  BlockPool::Reservation reservation;
  std::vector<BlockPool::Block> blocks;  // [spans][groups]; empty if there is none
  KvBlocks memory;                       // bytes of the blocks
  std::vector<uint32_t> generations;     // [spans][groups]
  size_t entered_spans = 0;              // in the prefix cache, never written any more
  // A prefill worker's own blocks that were replaced by equal ones of the prefix cache. The peer
  // reads them.
  std::vector<BlockPool::Block> replaced;
  // At a decode worker: the writers of blocks that it has given back behind a window.
  std::set<std::string> former_sources;

  int groups() const { return memory.layout.groups.count(); }
  int spans() const { return static_cast<int>(blocks.size()) / groups(); }
  size_t Entry(int span, int group) const {
    return static_cast<size_t>(span) * static_cast<size_t>(groups()) + static_cast<size_t>(group);
  }
  // The entry of the block that has this token in `layer`.
  size_t EntryOf(int layer, int token) const { return memory.layout.TableIndex(layer, token); }

  // Puts the block in place of what was there; an empty one leaves nothing there.
  void Put(size_t entry, BlockPool::Block block, const BlockPool& pool) {
    memory.block_table[entry] = block.empty() ? kNoBlock : block.id();
    generations[entry] = block.empty() ? 0 : pool.generation(block.id());
    blocks[entry] = std::move(block);
  }
  void Add(BlockPool::Block block, const BlockPool& pool) {
    memory.block_table.push_back(kNoBlock);
    generations.push_back(0);
    blocks.emplace_back();
    Put(blocks.size() - 1, std::move(block), pool);
  }
  // Begins with blocks of the prefix cache: those that somebody uses are shared, the others come out
  // of the reservation.
  void AddCached(const std::vector<int32_t>& cached, BlockPool& pool) {
    for (const int32_t id : cached) {
      if (id == kNoBlock) {
        Add({}, pool);
      } else {
        const bool is_used = pool.reference_count(id) > 0;
        Add(is_used ? pool.Share(id) : reservation.TakeKept(id), pool);
      }
    }
    entered_spans = static_cast<size_t>(spans());
  }
  void AddSpan(const BlockPool& pool) {
    for (int group = 0; group < groups(); ++group) Add({}, pool);
  }

  // The entries of the tokens [first, end) that have no block.
  std::vector<size_t> Lacking(int first, int end) const {
    std::vector<size_t> lacking;
    const size_t behind = Entry(memory.layout.BlocksFor(end), 0);
    for (size_t at = Entry(first / memory.layout.block_size, 0); at < behind; ++at) {
      if (blocks[at].empty()) lacking.push_back(at);
    }
    return lacking;
  }
  // The entries whose blocks nobody reads any more, where the tokens before `computed` are there.
  std::vector<size_t> Unread(int computed, const KvNeed& need) const {
    std::vector<size_t> unread;
    for (int group = 0; group < groups(); ++group) {
      const int first = memory.layout.groups.FirstNeeded(group, need, computed);
      const int behind = std::min(first / memory.layout.block_size, spans());
      for (int span = 0; span < behind; ++span) {
        if (!blocks[Entry(span, group)].empty()) unread.push_back(Entry(span, group));
      }
    }
    return unread;
  }
};

}  // namespace baton
