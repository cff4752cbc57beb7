#include "router/placement/prefix_index.h"

#include <algorithm>
#include <iterator>

namespace baton {

bool PrefixIndex::Apply(uint32_t id, const Delta& delta) {
  Worker& worker = workers_[id];
  if (delta.full) {
    Empty(id, worker);
    worker.listed = true;
  } else if (!worker.listed || delta.version != worker.version + 1) {
    Empty(id, worker);
    worker.listed = false;
    return false;
  }
  worker.version = delta.version;
  for (const uint64_t page : delta.added) Add(id, worker, page);
  // tests/planted_bugs: prefix_index_keeps_what_went
  for (const uint64_t page : delta.removed) Remove(id, worker, page);
  return true;
}

void PrefixIndex::Forget(uint32_t id) {
  const auto worker = workers_.find(id);
  if (worker == workers_.end()) return;
  Empty(id, worker->second);
  workers_.erase(worker);
}

size_t PrefixIndex::pages(uint32_t worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? 0 : found->second.pages.size();
}

bool PrefixIndex::Holds(uint32_t worker, uint64_t page) const {
  const auto found = workers_.find(worker);
  return found != workers_.end() && found->second.pages.contains(page);
}

absl::Span<const uint32_t> PrefixIndex::Holders(uint64_t page) const {
  const auto found = holders_.find(page);
  return found == holders_.end() ? absl::Span<const uint32_t>() : found->second;
}

std::vector<PrefixIndex::Hit> PrefixIndex::Find(const Hash128& root,
                                                absl::Span<const int32_t> token_ids,
                                                const std::string& salt,
                                                std::vector<uint64_t>* pages) const {
  std::vector<Hit> hits;
  HolderList left;  // workers that hold all pages so far
  Hash128 link = root;
  for (size_t at = 0; at + kPrefixPageTokens <= token_ids.size(); at += kPrefixPageTokens) {
    link =
        PrefixLink(link, token_ids.subspan(at, kPrefixPageTokens), at == 0 ? salt : std::string());
    const auto found = holders_.find(link.high);
    if (found == holders_.end()) break;
    if (at == 0) {
      left = found->second;
      for (const uint32_t worker : left) hits.push_back({.worker = worker, .tokens = 0});
    } else if (left != found->second) {
      HolderList both;
      std::set_intersection(left.begin(), left.end(), found->second.begin(), found->second.end(),
                            std::back_inserter(both));
      left.swap(both);
    }
    if (left.empty()) break;
    if (pages != nullptr) pages->push_back(link.high);
    auto hit = hits.begin();
    for (const uint32_t worker : left) {
      while (hit->worker != worker) ++hit;
      hit->tokens = static_cast<uint32_t>(at + kPrefixPageTokens);
    }
  }
  return hits;
}

void PrefixIndex::Add(uint32_t id, Worker& worker, uint64_t page) {
  const size_t part = std::min(bounds_.pages_of_worker, bounds_.pages / workers_.size());
  if (worker.pages.size() >= part || total_ >= bounds_.pages) return;
  if (!worker.pages.insert(page).second) return;
  ++total_;
  HolderList& holders = holders_[page];
  holders.insert(std::lower_bound(holders.begin(), holders.end(), id), id);
}

void PrefixIndex::Remove(uint32_t id, Worker& worker, uint64_t page) {
  if (worker.pages.erase(page) == 0) return;
  --total_;
  const auto found = holders_.find(page);
  HolderList& holders = found->second;
  holders.erase(std::lower_bound(holders.begin(), holders.end(), id));
  if (holders.empty()) holders_.erase(found);
}

void PrefixIndex::Empty(uint32_t id, Worker& worker) {
  while (!worker.pages.empty()) Remove(id, worker, *worker.pages.begin());
}

}  // namespace baton
