// A map of bounded size: when it is full, the least recently used entry is evicted.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace baton {

// Not thread-safe. Keys are ordered by <.
template <class Key, class Value>
class RecentCache {
 public:
  // REQUIRES: capacity > 0.
  explicit RecentCache(size_t capacity) : capacity_(capacity) {}

  // The value of `key`, or null when there is none. The pointer is valid until the next Insert.
  Value* Find(const Key& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->second;
  }

  // REQUIRES: Find(key) is null.
  Value& Insert(const Key& key, Value value) {
    if (entries_.size() == capacity_) {
      places_.erase(entries_.back().first);
      entries_.pop_back();
    }
    entries_.emplace_front(key, std::move(value));
    places_[key] = entries_.begin();
    return entries_.front().second;
  }

  size_t size() const { return entries_.size(); }

 private:
  using Entries = std::list<std::pair<Key, Value>>;
  size_t capacity_;
  Entries entries_;  // in order of use, the most recent first
  std::map<Key, typename Entries::iterator> places_;
};

}  // namespace baton
