#include "client/plan/planned_memory.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {

void PageHolders::Remove(uint64_t page, uint32_t worker) {
  const auto found = holders_.find(page);
  BATON_CHECK(found != holders_.end(), "a worker must hold the page");
  std::vector<uint32_t>& workers = found->second;
  const auto place = std::find(workers.begin(), workers.end(), worker);
  BATON_CHECK(place != workers.end(), "this worker holds it");
  *place = workers.back();
  workers.pop_back();
  if (workers.empty()) holders_.erase(found);
}

absl::Span<const uint32_t> PageHolders::Of(uint64_t page) const {
  const auto found = holders_.find(page);
  if (found == holders_.end()) return {};
  return found->second;
}

PlannedMemory::PlannedMemory(uint32_t worker, const Options& options, PageHolders& holders)
    : worker_(worker), options_(options), holders_(holders) {}

int PlannedMemory::HeldPages(absl::Span<const uint64_t> pages) const {
  const auto gone = std::find_if(pages.begin(), pages.end(),
                                 [&](uint64_t page) { return !places_.contains(page); });
  return static_cast<int>(gone - pages.begin());
}

bool PlannedMemory::TryTake(int64_t tokens) {
  if (used_ + tokens > options_.tokens) return false;
  used_ += tokens;
  int64_t lacking = used_ + cached_ - options_.tokens;
  while (lacking > 0) {
    Entry& oldest = entries_[first_];
    if (!oldest.is_page && oldest.tokens > lacking) {  // its last blocks are enough
      oldest.tokens -= lacking;
      cached_ -= lacking;
      return true;
    }
    lacking -= oldest.tokens;
    Drop(first_);
  }
  return true;
}

void PlannedMemory::Use(absl::Span<const uint64_t> pages, int count) {
  for (const uint64_t page : pages.first(static_cast<size_t>(count))) {
    const uint32_t index = places_.at(page);
    Entry& entry = entries_[index];
    if (entry.users++ > 0) continue;
    TakeOut(index);
    used_ += entry.tokens;
  }
}

void PlannedMemory::Enter(uint64_t page) {
  if (places_.contains(page)) {  // another sequence has computed it meanwhile: both use one
    used_ -= options_.page_tokens;
    Use(absl::MakeConstSpan(&page, 1), 1);
    return;
  }
  Hold({.name = page, .tokens = options_.page_tokens, .users = 1, .is_page = true});
  holders_.Add(page, worker_);
}

void PlannedMemory::Leave(absl::Span<const uint64_t> pages, int64_t own_tokens, uint64_t own) {
  used_ -= own_tokens;
  // The end goes into the line first, so that it goes out of it before what it continues.
  if (own != 0 && own_tokens > 0) {
    PutLast(Hold({.name = own, .tokens = own_tokens}));
  }
  for (auto page = pages.rbegin(); page != pages.rend(); ++page) {
    const uint32_t index = places_.at(*page);
    Entry& entry = entries_[index];
    if (--entry.users > 0) continue;
    used_ -= entry.tokens;
    PutLast(index);
  }
}

int64_t PlannedMemory::TakeAgain(uint64_t own) {
  const auto found = places_.find(own);
  if (found == places_.end()) return 0;
  const int64_t tokens = entries_[found->second].tokens;
  Drop(found->second);
  used_ += tokens;
  return tokens;
}

uint32_t PlannedMemory::Hold(const Entry& entry) {
  uint32_t index = 0;
  if (vacant_.empty()) {
    index = static_cast<uint32_t>(entries_.size());
    entries_.push_back(entry);
  } else {
    index = vacant_.back();
    vacant_.pop_back();
    entries_[index] = entry;
  }
  const bool is_new = places_.emplace(entry.name, index).second;
  BATON_CHECK(is_new, "a name is held once");
  return index;
}

// REQUIRES: no sequence uses the entry.
void PlannedMemory::Drop(uint32_t index) {
  TakeOut(index);
  const Entry& entry = entries_[index];
  places_.erase(entry.name);
  if (entry.is_page) holders_.Remove(entry.name, worker_);
  vacant_.push_back(index);
}

void PlannedMemory::PutLast(uint32_t index) {
  Entry& entry = entries_[index];
  entry.before = last_;
  entry.after = kNone;
  (last_ == kNone ? first_ : entries_[last_].after) = index;
  last_ = index;
  cached_ += entry.tokens;
}

void PlannedMemory::TakeOut(uint32_t index) {
  const Entry& entry = entries_[index];
  (entry.before == kNone ? first_ : entries_[entry.before].after) = entry.after;
  (entry.after == kNone ? last_ : entries_[entry.after].before) = entry.before;
  cached_ -= entry.tokens;
}

}  // namespace baton
