// Virtual time: what is due next happens next; equal times in the order of asking.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace baton {

using Micros = int64_t;  // microseconds of virtual time, from 0

class EventQueue {
 public:
  Micros now() const { return now_; }
  absl::Time time() const { return absl::UnixEpoch() + absl::Microseconds(now_); }
  bool empty() const { return heap_.empty(); }
  Micros next() const { return heap_.front().at; }  // REQUIRES: not empty

  // At that time, or now if it is over.
  void At(Micros at, std::function<void()> what) {
    heap_.push_back({std::max(at, now_), serial_++, std::move(what)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  void After(Micros delay, std::function<void()> what) { At(now_ + delay, std::move(what)); }

  // REQUIRES: not empty.
  void RunNext() {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    now_ = entry.at;
    entry.what();
  }

 private:
  struct Entry {
    Micros at = 0;
    uint64_t serial = 0;
    std::function<void()> what;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at > b.at : a.serial > b.serial;
  }

  Micros now_ = 0;
  uint64_t serial_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace baton
