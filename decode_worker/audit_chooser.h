// Chooses which pushes are audited, and which of their blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace baton {

// Each push is chosen with the same probability, and then each of its blocks, whatever came before:
// nobody who does not know the random numbers can tell which. A pusher that forges F of the M
// blocks of each push, of which a share S is audited, is found in a push with a probability of
// S * F / M at least (docs/security.md).
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
