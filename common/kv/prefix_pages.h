// The names of the pages that a prefix cache holds, and a log of their changes that other threads
// can follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"

namespace baton {

// Thread rule: Add, Remove and Publish belong to the cache's thread; Read may be called from any.
// The cache's thread waits for a reader only when kMostUnpublished changes are unpublished. Bounded
// by the pages that are held, plus kLogChanges and kMostUnpublished changes.
class PrefixPages {
 public:
  static constexpr size_t kLogChanges = 16384;
  static constexpr size_t kMostUnpublished = 4096;

  // A reader's place in the log. Each reader begins with a list of all pages.
  class Position {
    friend class PrefixPages;
    bool begun_ = false;
    uint64_t change_ = 0;     // number of the first change that the reader does not know
    bool listing_ = false;    // whether the list was not read to its end
    uint64_t next_page_ = 0;  // next page of the list to read
  };
  // Brings a reader's set of pages up to date. Where `full`, empty the set. Then add, then remove.
  // The set may have some of `added` already, and may lack some of `removed`.
  struct Changes {
    bool full = false;
    std::vector<uint64_t> added;
    std::vector<uint64_t> removed;
    bool more = false;  // whether the next Read has more changes at once
    bool empty() const { return !full && added.empty() && removed.empty(); }
  };

  // A page may be held in several blocks that differ after it. It counts how often it was added
  // and not removed, and is held until the count is 0.
  void Add(uint64_t page) { Change({page, true}); }
  void Remove(uint64_t page) { Change({page, false}); }
  // Lets readers see the changes so far. Where a reader holds the lock, the next call does it.
  void Publish();

  // The next changes for this reader: at most `most` pages in all. A reader that fell behind the
  // log gets the list of all pages again. REQUIRES: most > 0.
  Changes Read(Position& position, size_t most) const;

 private:
  using Entry = std::pair<uint64_t, bool>;  // page; whether it was added or removed

  void Change(const Entry& change);
  void Apply();
  uint64_t end() const { return first_ + log_.size(); }  // number of the next change

  std::vector<Entry> unpublished_;            // only the cache's thread touches it
  mutable std::mutex mutex_;                  // guards the members below
  absl::btree_map<uint64_t, uint32_t> held_;  // [page]: how many blocks hold it
  std::deque<Entry> log_;                     // the latest changes
  uint64_t first_ = 0;                        // number of the change log_.front()
};

}  // namespace baton
