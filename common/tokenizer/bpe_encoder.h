// Byte-pair encoding (BPE) of one piece of text in O(n log n).
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

// Starts with one token for each byte and merges adjacent tokens until no pair has a merge. The
// pair with the lowest rank merges first; of equal pairs the leftmost. Immutable and thread-safe;
// each thread needs a Scratch of its own.
class BpeEncoder {
 public:
  static constexpr int32_t kNoToken = -1;

  struct Merge {
    int32_t left;
    int32_t right;
    int32_t merged;
  };
  // A token of the piece, an element of a doubly linked list.
  struct Symbol {
    int32_t id;
    uint32_t next;      // index of the right neighbour
    uint32_t previous;  // index of the left neighbour
  };
  // Memory that one call after another uses.
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<uint64_t> candidates;  // heap of rank << 32 | index of the left symbol
    uint64_t heap_operations = 0;      // insertions and removals of all calls together
  };

  // `byte_ids` is the token of each byte value, or kNoToken. `merges` is ordered by rank; of two
  // merges of one pair the first counts. REQUIRES: no token of a merge is empty; fewer than 2^32 -
  // 1 merges.
  BpeEncoder(const std::array<int32_t, 256>& byte_ids, std::vector<Merge> merges);
  // The same without tokens of bytes, for EncodeSymbols alone.
  explicit BpeEncoder(std::vector<Merge> merges);

  // Appends the tokens of `piece` to `ids`. Bytes without a token are left out before merging.
  // Returns the offset of the first byte that was left out, nullopt if none was. REQUIRES: `piece`
  // is shorter than 1 GiB.
  std::optional<size_t> Encode(absl::string_view piece, Scratch& scratch,
                               std::vector<int32_t>& ids) const;
  // Appends what the tokens `symbols` merge to. REQUIRES: fewer than 2^30 symbols.
  void EncodeSymbols(absl::Span<const int32_t> symbols, Scratch& scratch,
                     std::vector<int32_t>& ids) const;

 private:
  // Merges the symbols of `scratch` and appends them.
  void MergeAll(Scratch& scratch, std::vector<int32_t>& ids) const;
  void AddCandidate(uint32_t left, Scratch& scratch) const;
  void MergeWithNext(uint32_t left, int32_t merged, Scratch& scratch) const;

  std::array<int32_t, 256> byte_ids_;
  std::vector<Merge> merges_;                             // [rank]
  absl::flat_hash_map<uint64_t, uint32_t> rank_of_pair_;  // left << 32 | right -> rank
};

}  // namespace baton
