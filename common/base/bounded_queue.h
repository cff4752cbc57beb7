// A queue between threads with a bound: who puts is told when it is full and decides what that
// means.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace baton {

// Thread-safe. Any number of producers and consumers. On std::mutex, which the thread sanitizer can
// follow: a system's absl::Mutex is compiled without it, and each use is then reported as a race.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False, and `item` untouched, when the queue is full or closed.
  bool TryPush(T&& item) {
    const std::lock_guard lock(mutex_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    changed_.notify_one();
    return true;
  }

  // The oldest item; nothing after `timeout`, or at once when closed and empty.
  std::optional<T> Pop(absl::Duration timeout) {
    const auto ready = [this] { return closed_ || !items_.empty(); };
    std::unique_lock lock(mutex_);
    if (timeout > kLongestTimedWait) {  // the clock would wrap
      changed_.wait(lock, ready);
    } else {
      changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout), ready);
    }
    if (items_.empty()) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  // No more items are taken; those inside can still be popped.
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
  static constexpr absl::Duration kLongestTimedWait = absl::Hours(24 * 365);

  const size_t capacity_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace baton
