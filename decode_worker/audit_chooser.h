// Chooses which pushes are audited, and which of their blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "common/kv/layout.h"

namespace baton {

// The first block of a pushed sequence of `tokens` tokens that can be computed once more: from it
// on each row finds all the keys that it sees, of the layers with a window too, whose first tokens no
// hand-off carries. Without windows that is block 0; the last block always is such a one where
// blocks have at most kAuditRows tokens. BlocksFor(tokens) if no block is.
inline int FirstAuditableBlock(const KvLayout& layout, int tokens) {
  const auto auditable = [&](int block) {
    for (int group = 0; group < layout.groups.count(); ++group) {
      const int begin = layout.groups.FirstHandedOff(group, tokens);
      // tests/planted_bugs: audit_sees_what_was_not_sent
      if (layout.groups.FirstSeen(group, block * layout.block_size) < begin) return false;
    }
    return true;
  };
  int block = 0;
  while (block < layout.BlocksFor(tokens) && !auditable(block)) ++block;
  return block;
}

// Every push has the same probability of being chosen, and so has each block of a chosen push. A
// pusher that does not know the random numbers cannot predict the choice. If it forges F of the M
// blocks of each push, and the share S of the pushes is audited, each push exposes it with a
// probability of at least S * F / M (docs/security.md). If a layer has a window, M and F count the
// blocks from FirstAuditableBlock on; a forgery only before them is not found.
//
// Not thread-safe.
class AuditChooser {
 public:
  // `share` [0, 1] of the pushes; 0: none. `random` gives 64 random bits at each call.
  AuditChooser(double share, std::function<uint64_t()> random)
      : share_(share), random_(std::move(random)) {}

  // The block of [first_block, end_block) to be audited; none: this push is not. REQUIRES: the
  // range is not empty.
  std::optional<int> Choose(int first_block, int end_block) {
    // 53 bits, so that every number is exact: in [0, 1).
    const double drawn = static_cast<double>(random_() >> 11) * 0x1p-53;
    if (drawn >= share_) return std::nullopt;
    return first_block +
           static_cast<int>(random_() % static_cast<uint64_t>(end_block - first_block));
  }

 private:
  const double share_;
  const std::function<uint64_t()> random_;
};

}  // namespace baton
