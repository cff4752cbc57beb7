// Finds the workers that hold the beginning of a prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

#include "common/base/prefix_hash.h"

namespace baton {

// Pure; not thread-safe. Of what workers announce it keeps as much as its bounds allow: pages
// beyond them are not found, and nothing else happens.
class PrefixIndex {
 public:
  struct Bounds {
    size_t pages = size_t{1} << 20;  // pages of all workers; each may have an equal part
    size_t pages_of_worker = size_t{1} << 17;
  };
  // What one message says of a worker's pages.
  struct Delta {
    uint64_t version = 0;  // one more than the last message's, unless full
    bool full = false;     // nothing from before it holds
    absl::Span<const uint64_t> added = {};
    absl::Span<const uint64_t> removed = {};
  };
  struct Hit {
    uint32_t worker = 0;
    uint32_t tokens = 0;  // whole pages from the beginning of the prompt
    friend bool operator==(const Hit&, const Hit&) = default;
  };

  PrefixIndex() : PrefixIndex(Bounds()) {}
  explicit PrefixIndex(const Bounds& bounds) : bounds_(bounds) {}

  // False after a gap in the versions: the worker's pages are unknown until a full list comes.
  bool Apply(uint32_t worker, const Delta& delta);
  void Forget(uint32_t worker);

  // The workers that hold the first page behind `root`, in ascending order. Costs a hash for each
  // page that is held and a step for each worker that holds it. Names of the pages that any of them
  // holds are appended to `pages` unless null.
  std::vector<Hit> Find(const Hash128& root, absl::Span<const int32_t> token_ids,
                        const std::string& salt, std::vector<uint64_t>* pages = nullptr) const;
  bool Holds(uint32_t worker, uint64_t page) const;
  // Who holds the page, in ascending order. Valid until the next change.
  absl::Span<const uint32_t> Holders(uint64_t page) const;

  size_t pages() const { return total_; }
  size_t pages(uint32_t worker) const;

 private:
  using HolderList = absl::InlinedVector<uint32_t, 4>;  // ascending
  struct Worker {
    uint64_t version = 0;
    bool listed = false;  // a full list has come, and no gap since
    absl::btree_set<uint64_t> pages;
  };

  void Add(uint32_t id, Worker& worker, uint64_t page);
  void Remove(uint32_t id, Worker& worker, uint64_t page);
  void Empty(uint32_t id, Worker& worker);

  const Bounds bounds_;
  absl::flat_hash_map<uint32_t, Worker> workers_;
  absl::flat_hash_map<uint64_t, HolderList> holders_;  // [page]
  size_t total_ = 0;                                   // pages of all workers
};

}  // namespace baton
