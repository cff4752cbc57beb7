// A bounded queue between threads. A producer learns when it is full or closed, and decides
// what to do.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/time/time.h"

#include "common/base/timed_wait.h"

namespace baton {

// What became of an item that was offered to a queue.
enum class Pushed { kYes, kFull, kClosed };

// Thread-safe, for any number of producers and consumers. It uses std::mutex, which
// ThreadSanitizer can follow. A system's absl::Mutex is compiled without ThreadSanitizer, which
// then reports each use as a race.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Takes the item, or leaves it untouched. The queue counts as full when it has no more than
  // `keep_free` places left: these are for items that must not be refused.
  [[nodiscard]] Pushed TryPush(T&& item, size_t keep_free = 0) {
    const std::lock_guard lock(mutex_);
    if (closed_) return Pushed::kClosed;
    if (items_.size() + keep_free >= capacity_) return Pushed::kFull;
    items_.push_back(std::move(item));
    changed_.notify_one();
    return Pushed::kYes;
  }

  // Waits for the oldest item. Returns nothing after `timeout`, or at once when the queue is closed
  // and empty.
  std::optional<T> Pop(absl::Duration timeout) {
    const auto ready = [this] { return closed_ || !items_.empty(); };
    std::unique_lock lock(mutex_);
    WaitFor(changed_, lock, timeout, ready);
    if (items_.empty()) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  // Takes no more items from here on; the items in it can still be popped.
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace baton
