// A rate with room for bursts.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace baton {

// Fills by `per_second` up to `capacity`, and is full at first. Not thread-safe. A `now` that is
// earlier than a previous one counts as that one, so no time fills the bucket twice.
class TokenBucket {
 public:
  TokenBucket(double per_second, double capacity)
      : per_second_(per_second), capacity_(capacity), level_(capacity) {}

  // Changes the rate; what is inside stays, up to the new capacity.
  void SetRate(double per_second, double capacity, absl::Time now) {
    Fill(now);
    per_second_ = per_second;
    capacity_ = capacity;
    level_ = std::min(level_, capacity_);
  }
  // How long until `amount` is inside; zero when it is. REQUIRES: amount <= capacity.
  absl::Duration Until(double amount, absl::Time now) {
    Fill(now);
    if (level_ >= amount) return absl::ZeroDuration();
    return absl::Seconds((amount - level_) / per_second_);
  }
  // Takes `amount`, even if less is inside: the rest is owed.
  void Take(double amount, absl::Time now) {
    Fill(now);
    level_ -= amount;
  }
  // Puts `amount` back, up to the capacity.
  void Give(double amount) { level_ = std::min(capacity_, level_ + amount); }
  // Takes `amount` if the bucket has that much.
  bool TryTake(double amount, absl::Time now) {
    if (Until(amount, now) > absl::ZeroDuration()) return false;
    level_ -= amount;
    return true;
  }
  bool Full(absl::Time now) {
    Fill(now);
    return level_ >= capacity_;
  }

 private:
  void Fill(absl::Time now) {
    if (filled_ == absl::InfinitePast()) filled_ = now;
    if (now <= filled_) return;
    const double seconds = absl::ToDoubleSeconds(now - filled_);
    level_ = std::min(capacity_, level_ + seconds * per_second_);
    filled_ = now;
  }

  double per_second_;
  double capacity_;
  double level_;
  absl::Time filled_ = absl::InfinitePast();  // when it was brought up to date last
};

}  // namespace baton
