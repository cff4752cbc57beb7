#include "common/kv/block_sources.h"

#include <algorithm>
#include <utility>

namespace baton {

BlockSources::BlockSources(const KvLayout& layout, const BlockPool& pool)
    : block_size_(layout.block_size),
      groups_(layout.groups.count()),
      pool_(pool),
      entries_(static_cast<size_t>(pool.total_blocks())) {}

// Where a block begins with retained pages, another may have written those.
void BlockSources::Opened(const std::vector<BlockPool::Block>& held, int first_token,
                          const std::string& name) {
  const auto first_row = static_cast<size_t>(first_token / block_size_);
  for (size_t index = first_row * static_cast<size_t>(groups_); index < held.size(); ++index) {
    if (held[index].empty()) continue;
    std::set<std::string> names;
    if (static_cast<int>(index) / groups_ * block_size_ < first_token) {
      names = NamesOf(held[index]);
      // tests/planted_bugs: quarantine_forgets_who_began_a_block
      if (names.empty()) names.insert("");
    }
    names.insert(name);
    Set(held[index], std::move(names));
  }
}

// What was computed here may rest on what others wrote.
void BlockSources::ContinuedHere(const BlockPool::Block& block) {
  std::set<std::string> names = NamesOf(block);
  if (names.empty()) return;
  names.insert("");
  Set(block, std::move(names));
}

void BlockSources::Copied(const BlockPool::Block& from, const BlockPool::Block& to) {
  Set(to, NamesOf(from));
}

std::string BlockSources::Of(const BlockPool::Block& block) const {
  const std::set<std::string> names = NamesOf(block);
  return names.size() == 1 ? *names.begin() : "";
}

bool BlockSources::AnyFrom(const std::vector<BlockPool::Block>& blocks,
                           const std::string& name) const {
  return std::any_of(blocks.begin(), blocks.end(), [&](const BlockPool::Block& block) {
    if (block.empty()) return false;
    // tests/planted_bugs: quarantine_spares_who_shares
    return name.empty() ? Of(block).empty() : NamesOf(block).count(name) > 0;
  });
}

std::set<std::string> BlockSources::NamesOf(const BlockPool::Block& block) const {
  const Entry& entry = entries_[static_cast<size_t>(block.id())];
  return entry.generation == pool_.generation(block.id()) ? entry.names : std::set<std::string>();
}

void BlockSources::Set(const BlockPool::Block& block, std::set<std::string> names) {
  entries_[static_cast<size_t>(block.id())] = {pool_.generation(block.id()), std::move(names)};
}

}  // namespace baton
