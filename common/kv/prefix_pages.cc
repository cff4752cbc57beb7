#include "common/kv/prefix_pages.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {

void PrefixPages::Change(const Entry& change) {
  unpublished_.push_back(change);
  if (unpublished_.size() < kMostUnpublished) return;
  const std::lock_guard lock(mutex_);
  Apply();
}

void PrefixPages::Publish() {
  if (unpublished_.empty()) return;
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) Apply();
}

void PrefixPages::Apply() {
  for (const Entry& change : unpublished_) {
    const auto& [page, added] = change;
    if (added) {
      if (++held_[page] > 1) continue;
    } else {
      const auto held = held_.find(page);
      BATON_CHECK(held != held_.end(), "a page is removed that is not held");
      if (--held->second > 0) continue;
      held_.erase(held);
    }
    log_.push_back(change);
  }
  unpublished_.clear();
  while (log_.size() > kLogChanges) {
    log_.pop_front();
    ++first_;
  }
}

PrefixPages::Changes PrefixPages::Read(Position& position, size_t most) const {
  BATON_CHECK(most > 0, "a reader that takes nothing never ends");
  Changes changes;
  const std::lock_guard lock(mutex_);
  if (!position.begun_ || position.change_ < first_) {
    position = Position();
    position.begun_ = position.listing_ = true;
    // Changes that come while the list is read are reported after it, even if the list shows them.
    position.change_ = end();
    changes.full = true;
  }
  if (position.listing_) {
    auto next = held_.lower_bound(position.next_page_);
    for (; next != held_.end() && changes.added.size() < most; ++next) {
      changes.added.push_back(next->first);
    }
    position.listing_ = next != held_.end();
    if (position.listing_) position.next_page_ = next->first;
  } else {
    const uint64_t until = std::min<uint64_t>(end(), position.change_ + most);
    std::vector<Entry> latest(log_.begin() + static_cast<std::ptrdiff_t>(position.change_ - first_),
                              log_.begin() + static_cast<std::ptrdiff_t>(until - first_));
    position.change_ = until;
    // If one page has several changes, only the last one counts.
    std::stable_sort(latest.begin(), latest.end(),
                     [](const Entry& a, const Entry& b) { return a.first < b.first; });
    for (size_t i = 0; i < latest.size(); ++i) {
      const auto& [page, added] = latest[i];
      if (i + 1 < latest.size() && latest[i + 1].first == page) continue;
      // tests/planted_bugs: prefix_pages_gone_not_told
      (added ? changes.added : changes.removed).push_back(page);
    }
  }
  changes.more = position.listing_ || position.change_ < end();
  return changes;
}

}  // namespace baton
