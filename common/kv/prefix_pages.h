// The pages that a prefix cache holds, by name, and the changes to them, for whoever follows from
// another thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"

namespace baton {

// Thread rule: Add, Remove and Publish belong to the cache's thread, which never waits for readers
// unless it has much to tell; Read may be called from any. Bounded by the pages that are held, plus
// kLogChanges and kMostUnpublished changes.
class PrefixPages {
 public:
  static constexpr size_t kLogChanges = 16384;
  static constexpr size_t kMostUnpublished = 4096;

  // A reader's place. It begins with a list of all pages.
  class Position {
    friend class PrefixPages;
    bool begun_ = false;
    uint64_t change_ = 0;     // changes before it are known
    bool listing_ = false;    // the list is not read to its end
    uint64_t next_page_ = 0;  // of the list
  };
  // What to do to a set of pages so that it is what is held: where `full`, empty it; then add, then
  // remove. It may hold all of `added` already and none of `removed`.
  struct Changes {
    bool full = false;
    std::vector<uint64_t> added;
    std::vector<uint64_t> removed;
    bool more = false;  // and the rest with the next Read
    bool empty() const { return !full && added.empty() && removed.empty(); }
  };

  // A page may be held in several blocks that differ further on: it is there as often as it was
  // added and not removed.
  void Add(uint64_t page) { Change({page, true}); }
  void Remove(uint64_t page) { Change({page, false}); }
  // Lets readers see the changes so far; where one is reading, with the next call.
  void Publish();

  // At most `most` pages, added and removed. A reader that fell behind the log gets the list again.
  Changes Read(Position& position, size_t most) const;

 private:
  using Entry = std::pair<uint64_t, bool>;  // page, added

  void Change(const Entry& change);
  void Apply();
  uint64_t end() const { return first_ + log_.size(); }  // of the log

  std::vector<Entry> unpublished_;            // the cache's thread's
  mutable std::mutex mutex_;                  // guards what follows
  absl::btree_map<uint64_t, uint32_t> held_;  // [page]: how often
  std::deque<Entry> log_;                     // the latest changes to what is held
  uint64_t first_ = 0;                        // changes before log_.front()
};

}  // namespace baton
