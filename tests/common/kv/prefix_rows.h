// Rows of tokens for tests of the prefix cache, and the pages that it announces.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/prefix_hash.h"
#include "common/kv/layout.h"
#include "common/kv/prefix_cache.h"

namespace baton {

inline constexpr int kRowTokens = 32;

inline KvLayout LayoutOf(const std::vector<int>& windows) {
  KvLayout layout{.block_size = kRowTokens};
  if (!windows.empty()) layout.groups = KvLayerGroups(windows);
  return layout;
}

// Tokens of whole rows, each all of one letter, and one token more.
inline std::vector<int32_t> TokensOf(const std::string& rows) {
  std::vector<int32_t> tokens;
  for (const char row : rows) tokens.insert(tokens.end(), kRowTokens, row);
  tokens.push_back(0);
  return tokens;
}

inline std::set<uint64_t> AnnouncedPages(PrefixCache& cache) {
  cache.pages().Publish();
  PrefixPages::Position position;
  const std::vector<uint64_t> pages = cache.pages().Read(position, 100000).added;
  return {pages.begin(), pages.end()};
}

// Names of the pages of the last row of `rows`, in layers of this window where others keep more.
inline std::set<uint64_t> PagesOf(const std::string& rows, std::optional<int> window) {
  const std::vector<int32_t> tokens = TokensOf(rows);
  std::set<uint64_t> pages;
  Hash128 link = PrefixRoot("model");
  for (size_t at = 0; at + 1 < tokens.size(); at += kPrefixPageTokens) {
    link = PrefixLink(link, absl::MakeConstSpan(tokens).subspan(at, kPrefixPageTokens), "");
    if (at + kRowTokens + 1 < tokens.size()) continue;
    pages.insert(window.has_value() ? PrefixWindowPage(link.high, *window) : link.high);
  }
  return pages;
}

}  // namespace baton
