// Decides how far the blocks that were found for a sequence's rows serve it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/kv/layout.h"

namespace baton {

// Takes rows of a block table one after another, each with those of its blocks that are held, and
// decides which prefixes they serve: those of which each group's blocks are held from the first
// token on that `need` reads. The first group's blocks are all held, whether they are read or not.
class ServedRows {
 public:
  // The rows begin with row `first_row`; those before it are held elsewhere. Of the layout only
  // block_size and groups are read.
  ServedRows(const KvLayout& layout, const KvNeed& need, size_t first_row = 0);

  // `row` [groups]: blocks, kNoBlock where none is held. REQUIRES: the first group's is held.
  void Add(absl::Span<const int32_t> row);

  // Whether the rows serve a prefix of `end` tokens. REQUIRES: `end` is in the last row, or at its
  // end.
  bool Serve(int end) const;

  // The blocks of a prefix of `end` tokens that they served when `end` was in the last row, flat
  // [rows][groups], from first_row on; kNoBlock if none is read.
  std::vector<int32_t> Blocks(int end) const;

 private:
  // The first row that is read of the group in a prefix of `end` tokens; behind its rows if none.
  size_t FirstRead(int group, int end) const;

  const KvLayout layout_;
  const KvNeed need_;
  const size_t first_row_;
  std::vector<int32_t> blocks_;     // [rows][groups]
  std::vector<size_t> held_since_;  // [groups]: first row of those held without a gap to the end
};

}  // namespace baton
