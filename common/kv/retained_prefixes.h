// Retains the KV that broken hand-offs had received, each for the next attempt at the same request
// alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/kv/block_pool.h"
#include "common/kv/block_ref.h"
#include "common/kv/layout.h"

namespace baton {

// Holds, by the request's name, the pages of one attempt's own blocks up to the last page that both
// ends agreed on; of the last block only some pages may count. Before they serve the next attempt,
// its tokens and its numerics are compared with those of the pages.
//
// Holds no reference. As in the prefix cache, a retained block is free and kept (see BlockPool):
// whoever needs blocks gets it, and then it is not retained any more. Retained blocks are not in
// the prefix cache, because no commit has confirmed them.
//
// Does no I/O and reads no clock. Thread rule: one thread, the pool's. Borrows the pool.
class RetainedPrefixes {
 public:
  struct Bounds {
    absl::Duration lifetime = absl::Seconds(30);
    size_t max_prefixes = 64;  // one more takes the place of the oldest
  };
  struct Prefix {
    std::vector<int32_t> token_ids;  // tokens of whole pages, from the sequence's begin
    std::string numerics;            // numerics under which their K and V were made
    size_t first_block = 0;          // first retained row; the prefix cache has those before
    // Tokens of the sequence that was handed off: in the layers of a window its blocks hold the
    // tokens from KvLayerGroups::FirstHandedOff on. May be 0 if no layer has a window.
    int handed_off = 0;
  };
  struct Match {
    // A block table [rows][groups] from the first row on that is not shared; kNoBlock if nothing
    // is read. The last row may hold the prefix's end in part.
    std::vector<int32_t> blocks;
    int tokens = 0;  // tokens up to the match's end; 0: there is no match
  };

  // Reads only block_size and groups of the layout.
  RetainedPrefixes(const KvLayout& layout, const Bounds& bounds, BlockPool& pool);

  // Retains the rows from prefix.first_block to the prefix's end of the block table `blocks`, in
  // which blocks of all groups but the first may be empty. They hold the prefix's K and V. It takes
  // the place of whatever was retained for `request`. The caller gives the blocks back next, the
  // last row first. REQUIRES: nobody else uses these blocks, and nobody writes into them any more;
  // the prefix is whole pages, and `blocks` reach its end.
  void Retain(const std::string& request, Prefix prefix,
              const std::vector<BlockPool::Block>& blocks, absl::Time now);

  // The retained rows that continue the next attempt's first `shared_blocks` rows, which it has from
  // the prefix cache, where they serve the same `need`: the longest that serve it together. They
  // never hold its last token. The caller has to take the blocks before the pool gives out any
  // other, and then to call Forget.
  Match Find(const std::string& request, const std::string& numerics,
             absl::Span<const int32_t> token_ids, size_t shared_blocks, const KvNeed& need) const;

  void Forget(const std::string& request);
  void ForgetExpired(absl::Time now);
  void ForgetAll();
  absl::Time NextExpiry() const;  // InfiniteFuture when nothing is retained
  size_t size() const { return requests_.size(); }

 private:
  struct Entry {
    Prefix prefix;
    // [rows][groups] of the prefix from prefix.first_block on, in the lives in which the blocks were
    // retained; the id is kNoBlock if there is none.
    std::vector<BlockRef> blocks;
    absl::Time expiry;
  };
  using Entries = std::map<std::string, Entry>;
  // The entry that expires first. REQUIRES: there is an entry.
  Entries::const_iterator Oldest() const;
  void Forget(Entries::const_iterator entry);
  // The blocks of row `row` of the sequence that are still retained; kNoBlock for the others.
  std::vector<int32_t> RowOf(const Entry& entry, size_t row) const;
  // Whether the hand-off carried all tokens of rows from `first_row` on that `need` reads of the
  // entry's first `end` tokens.
  bool Carried(const Entry& entry, const KvNeed& need, size_t first_row, int end) const;

  const KvLayout layout_;
  const size_t block_size_;  // tokens of a block
  const size_t groups_;
  const Bounds bounds_;
  BlockPool& pool_;
  Entries requests_;  // entries by the request's name
};

}  // namespace baton
