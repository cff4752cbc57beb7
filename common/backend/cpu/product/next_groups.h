// The fetching of weights ahead of a panel's tiles. Only the sources of the kernel tables
// (kernels.h) include it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/cpu/product/product.h"

namespace baton {

// Prefetches the weights of the `groups` groups after `group`, which the thread most likely takes
// next, into its second cache: some lines with each of `tiles` tiles. Without it the next panel
// waits for memory while it is unpacked: 4 % of a prefill in F16.
class NextGroups {
 public:
  [[gnu::always_inline]] NextGroups(const ProductArgs& args, int group, int groups, int tiles)
      : ahead_(args.weight + static_cast<size_t>(group + groups) * args.group_bytes),
        lines_(static_cast<size_t>(groups) * args.group_bytes / kLine /
                   static_cast<size_t>(tiles + 1) +
               1) {}

  [[gnu::always_inline]] void PrefetchSome() {
    for (size_t line = 0; line < lines_; ++line, ahead_ += kLine) {
      __builtin_prefetch(ahead_, /*rw=*/0, /*locality=*/2);
    }
  }

 private:
  static constexpr size_t kLine = 64;
  const uint8_t* ahead_;
  const size_t lines_;
};

}  // namespace baton
