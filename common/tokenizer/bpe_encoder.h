// Byte-pair encoding of one piece of text, in n log n.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton {

// Merges neighbours in the order of their rank, the leftmost first among equals, until no pair is
// left that merges. Immutable and thread-safe; the scratch is one thread's.
class BpeEncoder {
 public:
  static constexpr int32_t kNoToken = -1;

  struct Merge {
    int32_t left;
    int32_t right;
    int32_t merged;
  };
  struct Symbol {
    int32_t id;
    uint32_t next;  // index of its neighbours
    uint32_t previous;
  };
  // Memory that calls share.
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<uint64_t> candidates;  // heap of rank << 32 | index of the left symbol
    uint64_t heap_operations = 0;      // insertions and removals, of all calls
  };

  // `byte_ids`: the token of each byte value, or kNoToken. `merges` by rank; of equal pairs the
  // first counts. REQUIRES: no token of a merge is empty; fewer than 2^32 merges.
  BpeEncoder(const std::array<int32_t, 256>& byte_ids, std::vector<Merge> merges);

  // Appends the tokens of `piece` to `ids`. A byte without a token is left out, as if it had not
  // been there; the result is the index of the first one, where there is any. REQUIRES: piece under
  // 1 GiB.
  std::optional<size_t> Encode(absl::string_view piece, Scratch& scratch,
                               std::vector<int32_t>& ids) const;

 private:
  void AddCandidate(uint32_t left, Scratch& scratch) const;
  void MergeWithNext(uint32_t left, int32_t merged, Scratch& scratch) const;

  std::array<int32_t, 256> byte_ids_;
  std::vector<Merge> merges_;                             // by rank
  absl::flat_hash_map<uint64_t, uint32_t> rank_of_pair_;  // left << 32 | right
};

}  // namespace baton
