#include "router/placement/prefix_reuse.h"

#include <algorithm>

namespace baton {

void PrefixReuse::Count(const Hash128& root, absl::Span<const int32_t> held,
                        const std::string& salt) {
  held = held.subspan(0, kMostPagesOfPrompt * kPrefixPageTokens);
  Hash128 link = root;
  std::optional<uint64_t> parent;
  for (size_t at = 0; at + kPrefixPageTokens <= held.size(); at += kPrefixPageTokens) {
    link = PrefixLink(link, held.subspan(at, kPrefixPageTokens), at == 0 ? salt : std::string());
    Entry& entry = pages_[link.high];
    entry.parent = parent;
    entry.depth_tokens = static_cast<uint32_t>(at + kPrefixPageTokens);
    ++entry.count;
    parent = link.high;
  }
  while (pages_.size() > kMostPages) {
    absl::erase_if(pages_, [](auto& page) { return (page.second.count /= 2) == 0; });
  }
}

std::vector<PrefixReuse::Page> PrefixReuse::MostReused(size_t most) const {
  std::vector<Page> pages;
  pages.reserve(pages_.size());
  for (const auto& [page, entry] : pages_) {
    pages.push_back({.page = page,
                     .parent = entry.parent,
                     .depth_tokens = entry.depth_tokens,
                     .count = entry.count});
  }
  const auto end = pages.begin() + static_cast<ptrdiff_t>(std::min(most, pages.size()));
  std::partial_sort(pages.begin(), end, pages.end(), [](const Page& a, const Page& b) {
    if (a.count != b.count) return a.count > b.count;
    if (a.depth_tokens != b.depth_tokens) return a.depth_tokens < b.depth_tokens;
    return a.page < b.page;
  });
  pages.erase(end, pages.end());
  return pages;
}

}  // namespace baton
