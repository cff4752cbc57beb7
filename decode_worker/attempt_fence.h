// Decides which attempt at a choice of a request is the current one. A higher attempt ends the
// lower ones at the choices that it covers; a lower one that comes late is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "baton/internal/v1/common.pb.h"

namespace baton {

// Does no I/O and reads no clock. Not thread-safe. It also remembers the last `remembered` choices
// without a live attempt, so that a late message of an old attempt is still refused.
class AttemptFence {
 public:
  // kCurrent: the attempt lives. kSuperseded: a higher attempt was seen. kDuplicate: the attempt
  // itself was seen before. kUnknown: the attempt was never admitted, has ended, or is forgotten.
  enum class Verdict { kCurrent, kSuperseded, kDuplicate, kUnknown };

  explicit AttemptFence(size_t remembered = 4096) : remembered_(remembered) {}

  // Admits a new attempt at the choices [key.choice, key.choice + choices). kCurrent: it lives from
  // here on, and *superseded lists the lower attempts at any of these choices that lived until now.
  // kSuperseded: a higher attempt was seen at one of them. kDuplicate: this attempt was seen.
  Verdict Admit(const internal::v1::AttemptKey& key, uint32_t choices,
                std::vector<internal::v1::AttemptKey>* superseded);
  // The attempt has ended at all its choices.
  void End(const internal::v1::AttemptKey& key, uint32_t choices);
  // The verdict on a message for an attempt: kCurrent, kSuperseded or kUnknown.
  Verdict Check(const internal::v1::AttemptKey& key) const;

 private:
  using Choice = std::tuple<uint64_t, uint64_t, uint32_t>;  // request id (high, low), choice
  struct Entry {
    uint32_t highest = 0;       // number of the highest attempt seen
    uint32_t first_choice = 0;  // first choice that this attempt covers
    bool live = false;
  };
  void Forget();

  const size_t remembered_;
  std::map<Choice, Entry> choices_;
  std::deque<Choice> ended_;  // ended choices, oldest first; one of them may live again
};

}  // namespace baton
