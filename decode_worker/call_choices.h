// The choices of one Decode call: which ones the router has stopped, and which have ended.
#pragma once

#include <cstdint>
#include <set>

namespace baton {

// Thread rule: not thread-safe; the lock of its call guards it.
class CallChoices {
 public:
  // The call computes `count` choices from `first` on.
  CallChoices(uint32_t first, uint32_t count) : first_(first), count_(count) {}

  // Whether the call computes the choice. REQUIRES, below: it does.
  bool Has(uint32_t choice) const { return choice >= first_ && choice - first_ < count_; }
  // The router stops the choice. False if it was stopped or has ended before.
  bool Stop(uint32_t choice) { return ended_.count(choice) == 0 && stopped_.insert(choice).second; }
  // The choice has ended. False if it had before.
  bool End(uint32_t choice) { return ended_.insert(choice).second; }

  bool stopped(uint32_t choice) const { return stopped_.count(choice) > 0; }
  bool all_ended() const { return ended_.size() == count_; }
  // Whether every choice was stopped or has ended.
  bool all_over() const {
    std::set<uint32_t> over = ended_;
    over.insert(stopped_.begin(), stopped_.end());
    return over.size() == count_;
  }

 private:
  uint32_t first_;
  uint32_t count_;
  std::set<uint32_t> stopped_;
  std::set<uint32_t> ended_;
};

}  // namespace baton
