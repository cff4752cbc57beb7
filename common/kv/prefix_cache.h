// Finds the blocks that hold the KV of given tokens, so that sequences that begin alike share them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/base/hash.h"
#include "common/base/prefix_hash.h"
#include "common/kv/block_pool.h"
#include "common/kv/layout.h"
#include "common/kv/prefix_pages.h"

namespace baton {

// An index over the whole rows of block tables: a row's blocks, one of each group of layers, hold
// the KV of the same tokens. A row is found by a 128-bit chain of hashes over the model's identity
// and numerics, the salt and all tokens up to the row's end; the chain has a link for each page of
// 16 tokens. Every hit compares the tokens and the salt themselves, so a collision of hashes costs a
// hit and never serves another sequence's KV.
//
// A held row always has its block of the first group, its anchor. A block of another group may be
// missing: its window had slid past it before the row was entered, or it was evicted. Where the
// anchor's life ends, the row's other blocks are not kept any more.
//
// The index holds no reference. An unused held block is free and kept (see BlockPool). When the
// pool gives it out anew, the pool calls back first, and its place in the index ends: it never
// outlasts its block's life. No other code may stop keeping a held block: the pool would not call.
// A sequence that uses a held anchor also uses all anchors before it until it ends, and gives back
// the last one first. So an anchor is evicted before the one that it continues: the least recently
// used one, leaves only. Blocks of the other groups may be given back at any time.
//
// Thread rule: one thread, the pool's; pages() has a thread rule of its own. Borrows the pool,
// whose eviction callback it takes.
class PrefixCache {
 public:
  // A block in whose place another one came.
  struct Replaced {
    int group = 0;
    BlockPool::Block block;
  };

  // `identity`: a text for everything but the tokens and the salt that the bytes of KV depend on.
  // Reads only block_size and groups of the layout.
  PrefixCache(const std::string& identity, const KvLayout& layout, BlockPool& pool,
              PrefixHashFunction hash = ChainHash);

  // The blocks that hold the longest prefix of `token_ids` that serves `need`: a block table
  // [rows][groups]. It has all anchors; a block of another group is kNoBlock if `need` does not
  // read it. The rows never hold the last token. The caller has to take the blocks before the pool
  // gives out any other.
  std::vector<int32_t> Find(absl::Span<const int32_t> token_ids, const std::string& salt,
                            const KvNeed& need) const;

  // Row `row` of the block table `blocks` now holds the KV of its tokens, in the blocks that are not
  // empty. Enters them, and completes a row that is held already. Where used blocks hold the same
  // tokens, they take the place of those in `blocks`. Returns the blocks that were replaced, at most
  // one for each group. Where the row before it is not held, nothing is entered.
  //
  // `handed_off`: where the KV came by the hand-off of this many tokens, which carries
  // what KvLayerGroups::FirstHandedOff says; a block of which it carried a part is not entered.
  // 0: the KV was computed.
  //
  // REQUIRES: `row` has its anchor; the anchors of the rows before it came from Find or earlier
  // calls; token_ids reach the row's end.
  std::vector<Replaced> Insert(absl::Span<const int32_t> token_ids, const std::string& salt,
                               std::vector<BlockPool::Block>& blocks, size_t row,
                               int handed_off = 0);

  // Takes the block out of the index. If it is an anchor, its row ends, and the rows that
  // continue it are not found any more either.
  void Forget(int32_t block);

  void ForgetAll();

  // The pages of all held rows. It may include rows that continue a forgotten one. A page is there
  // for a kind of layers (KvLayerGroups) where all groups of the kind hold it.
  PrefixPages& pages() { return pages_; }

 private:
  struct Entry {
    uint64_t serial = 0;  // names the entry for ever; 0: the block is no anchor
    uint64_t parent = 0;  // serial of the entry that this one continues; 0: begins a sequence
    Hash128 hash;
    std::string content;          // the bytes that `hash` covers beyond the parent's hash
    std::vector<uint64_t> pages;  // first words of its pages' links
    std::vector<int32_t> blocks;  // [groups], the anchor first; kNoBlock where none is held
  };
  // Where a block is held.
  struct Place {
    int32_t anchor = kNoBlock;  // the anchor of the row; kNoBlock: nowhere
    size_t group = 0;
  };
  // Groups of one window.
  struct Kind {
    int window = 0;
    size_t begin = 0;  // first group
    size_t end = 0;
  };

  // Whether the block is an anchor.
  bool Anchors(int32_t block) const { return At(block).serial != 0; }
  // The anchor of the entry that has this hash, parent and content; kNoBlock if there is none.
  int32_t Lookup(const Hash128& hash, uint64_t parent, const std::string& content) const;
  // Enters `own` as the anchor of this row, which no used block anchors.
  void Anchor(int32_t own, Entry row);
  void Attach(int32_t anchor, size_t group, int32_t block);
  void Detach(int32_t block);
  // Where the entry holds the pages of the group's kind, enters each into pages_.
  void ForPages(const Entry& entry, size_t group, void (PrefixPages::*tell)(uint64_t));
  std::string Content(absl::Span<const int32_t> token_ids, const std::string& salt,
                      size_t row) const;
  // Continues the chain from `hash`, the link at the begin of row `row`, to the link at its end.
  // Appends the first word of each page's link on the way to `pages` unless null.
  Hash128 Link(Hash128 hash, absl::Span<const int32_t> token_ids, const std::string& salt,
               size_t row, std::vector<uint64_t>* pages) const;
  const Entry& At(int32_t block) const { return entries_[static_cast<size_t>(block)]; }
  Entry& At(int32_t block) { return entries_[static_cast<size_t>(block)]; }
  Place& PlaceOf(int32_t block) { return places_[static_cast<size_t>(block)]; }

  const KvLayout layout_;
  const size_t block_size_;  // tokens of a block
  const size_t groups_;
  std::vector<Kind> kinds_;
  BlockPool& pool_;
  const PrefixHashFunction hash_;
  const Hash128 root_;
  uint64_t last_serial_ = 0;
  std::vector<Entry> entries_;          // [block]: of anchors
  std::vector<Place> places_;           // [block]
  std::map<Hash128, int32_t> anchors_;  // anchors by the hash of their entry
  PrefixPages pages_;
};

}  // namespace baton
