// The blocks of both workers, of which either has enough for one request only.
//
// K and V are not bytes here but names: a block holds the request that wrote it last. So a page
// that comes from or goes to a block in its next life is seen, and states compare.
#pragma once

#include <string>
#include <vector>

namespace baton {

struct InterleavedBlocks {
  int prefill_owner = -1;           // request that has the prefill worker's blocks
  int prefill_content = -1;         // request whose K and V are in them
  int decode_owner = -1;            // owner of the reservation or the blocks
  std::vector<int> decode_content;  // [page]
  std::string violation;            // the first; empty: none

  void Violation(const std::string& what) {
    if (violation.empty()) violation = what;
  }
};

}  // namespace baton
