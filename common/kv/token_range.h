// Which tokens of a sequence, and in which layer: what is computed, sent, copied and covered.
#pragma once

#include <algorithm>
#include <vector>

#include "common/kv/layout.h"

namespace baton {

// The tokens [begin, end) of a sequence.
struct TokenRange {
  int begin = 0;
  int end = 0;
  int size() const { return end - begin; }
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

// K and V of these tokens in one layer.
struct LayerTokens {
  int layer = 0;
  TokenRange tokens;
  friend bool operator==(const LayerTokens&, const LayerTokens&) = default;
};

// The pages of the range, ascending. The last one may be shorter. REQUIRES: begin is a multiple of
// kKvPageTokens.
inline std::vector<TokenRange> PagesOf(TokenRange tokens) {
  std::vector<TokenRange> pages;
  for (int begin = tokens.begin; begin < tokens.end; begin += kKvPageTokens) {
    pages.push_back({begin, std::min(begin + kKvPageTokens, tokens.end)});
  }
  return pages;
}

}  // namespace baton
