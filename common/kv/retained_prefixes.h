// What broken hand-offs had received: each for the next attempt at the same request, for nobody
// else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/kv/block_pool.h"

namespace baton {

// The pages of one attempt's own blocks, by the request's name, up to the last page that both ends
// agreed on: the last block may be held in part. The tokens that they stand for and the numerics
// that they were made under are compared before they serve.
//
// Holds no reference: as in the prefix cache, a block held here is free and kept (see BlockPool),
// so whoever needs blocks gets it, and what it held ends with that. Not to be found in the prefix
// cache: no commit has vouched for it.
//
// Pure. Thread rule: one thread, the pool's. Borrows the pool.
class RetainedPrefixes {
 public:
  struct Bounds {
    absl::Duration lifetime = absl::Seconds(30);
    size_t max_prefixes = 64;  // the oldest makes room for one more
  };
  struct Prefix {
    std::vector<int32_t> token_ids;  // whole pages
    std::string numerics;
    size_t first_block = 0;  // those before belong to others too, and are found by them
  };
  struct Match {
    std::vector<int32_t> blocks;  // in order; the last one may be in part
    int tokens = 0;               // the prefix that ends with them; 0: nothing is held
  };

  RetainedPrefixes(int block_size, const Bounds& bounds, BlockPool& pool);

  // blocks[prefix.first_block, ...) hold the prefix's K and V, and are to be given back next, the
  // last one first. Takes the place of what was retained for `request`. REQUIRES: nobody else uses
  // these blocks, and nothing writes into them any more.
  void Retain(const std::string& request, Prefix prefix,
              const std::vector<BlockPool::Block>& blocks, absl::Time now);

  // The blocks, from blocks[shared_blocks] of the next attempt on, that continue what it shares
  // with others; never the last token. They are to be taken before the pool gives out anything
  // else; Forget then ends their being kept.
  Match Find(const std::string& request, const std::string& numerics,
             absl::Span<const int32_t> token_ids, size_t shared_blocks) const;

  void Forget(const std::string& request);
  void ForgetExpired(absl::Time now);
  absl::Time NextExpiry() const;  // InfiniteFuture when nothing is retained
  size_t size() const { return requests_.size(); }

 private:
  struct Held {
    int32_t block = 0;
    uint32_t generation = 0;
  };
  struct Entry {
    Prefix prefix;
    std::vector<Held> blocks;  // from prefix.first_block on
    absl::Time expiry;
  };
  using Entries = std::map<std::string, Entry>;
  // The one that expires first. REQUIRES: there is one.
  Entries::const_iterator Oldest() const;
  void Forget(Entries::const_iterator entry);

  const size_t block_size_;  // tokens
  const Bounds bounds_;
  BlockPool& pool_;
  Entries requests_;
};

}  // namespace baton
