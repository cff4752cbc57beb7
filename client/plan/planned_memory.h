// The KV cache of a planned worker: what its sequences hold, and the prefixes that stay for later.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace baton {

// Which workers hold which prefix pages of the trace, as the router knows it. Not thread-safe.
class PageHolders {
 public:
  void Add(uint64_t page, uint32_t worker) { holders_[page].push_back(worker); }
  void Remove(uint64_t page, uint32_t worker);
  // In no particular order, but the same each time. Valid until the next change.
  absl::Span<const uint32_t> Of(uint64_t page) const;

 private:
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> holders_;
};

// A page of the trace is named by the chain of ids up to it, so a worker that holds it can use it
// for any prompt that has the name. An unused page stays until its room is needed, least recently
// used first, and never goes before the pages that continue it.
//
// All sizes are in tokens. Not thread-safe. Borrows the holders.
class PlannedMemory {
 public:
  struct Options {
    int64_t tokens = 0;   // capacity
    int page_tokens = 1;  // tokens in a page of the trace
  };
  PlannedMemory(uint32_t worker, const Options& options, PageHolders& holders);

  // How many pages from the first on are held.
  int HeldPages(absl::Span<const uint64_t> pages) const;

  // Takes room for a sequence's own tokens, from unused pages if need be. False: there is not
  // enough, and nothing has changed.
  bool TryTake(int64_t tokens);
  void Give(int64_t tokens) { used_ -= tokens; }
  // The first `count` pages, which are held, are used once more.
  void Use(absl::Span<const uint64_t> pages, int count);
  // A page was computed: it is held and used from now on. Its tokens were a sequence's own.
  void Enter(uint64_t page);
  // The pages are used once less, and own tokens are given back. They stay by the name `own`, as
  // what continues the pages, if that is not 0.
  void Leave(absl::Span<const uint64_t> pages, int64_t own_tokens, uint64_t own);
  // Own tokens that stayed by this name are taken again: how many of them are still there.
  int64_t TakeAgain(uint64_t own);

  int64_t tokens() const { return options_.tokens; }
  int page_tokens() const { return options_.page_tokens; }
  int64_t used() const { return used_; }      // by sequences
  int64_t cached() const { return cached_; }  // kept for later, but available
  int64_t free() const { return options_.tokens - used_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // A page, or the own tokens of a sequence.
  struct Entry {
    uint64_t name = 0;
    int64_t tokens = 0;
    int users = 0;
    bool is_page = false;
    uint32_t before = kNone, after = kNone;  // in the list of unused entries
  };

  uint32_t Hold(const Entry& entry);
  void Drop(uint32_t index);
  void PutLast(uint32_t index);
  void TakeOut(uint32_t index);

  const uint32_t worker_;
  const Options options_;
  PageHolders& holders_;
  int64_t used_ = 0, cached_ = 0;
  std::vector<Entry> entries_;
  std::vector<uint32_t> vacant_;                    // free entries
  absl::flat_hash_map<uint64_t, uint32_t> places_;  // name -> entry
  uint32_t first_ = kNone, last_ = kNone;           // least and most recently used entry
};

}  // namespace baton
