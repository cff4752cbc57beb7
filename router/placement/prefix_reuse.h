// Counts how often requests have found each page of a prompt cached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

#include "common/base/prefix_hash.h"

namespace baton {

// Bounded: when it is full, all counts are halved until pages that are seldom reused are gone. Not
// thread-safe.
class PrefixReuse {
 public:
  static constexpr size_t kMostPages = 4096;
  static constexpr size_t kMostPagesOfPrompt = 256;  // what lies behind them is not counted

  struct Page {
    uint64_t page = 0;  // its name, as in PrefixIndex
    std::optional<uint64_t> parent{};
    uint32_t depth_tokens = 0;  // tokens up to its end
    uint64_t count = 0;
  };

  // A request was placed where these first tokens of its prompt, which are whole pages, are held.
  void Count(const Hash128& root, absl::Span<const int32_t> held, const std::string& salt);
  // At most `most` pages, the most reused first. Since who reuses a page reuses those before it,
  // each comes after its ancestors.
  std::vector<Page> MostReused(size_t most) const;

 private:
  struct Entry {
    std::optional<uint64_t> parent;
    uint32_t depth_tokens = 0;
    uint64_t count = 0;
  };
  absl::flat_hash_map<uint64_t, Entry> pages_;
};

}  // namespace baton
