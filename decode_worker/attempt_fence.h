// Which attempt at a choice of a request is the current one: a higher attempt ends lower ones of
// the choices that it covers, a late lower one is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "baton/internal/v1/common.pb.h"

namespace baton {

// Pure; not thread-safe. Remembers choices without a live attempt too, the last `remembered` of
// them, so that what comes late finds the fence still standing.
class AttemptFence {
 public:
  enum class Verdict { kCurrent, kSuperseded, kDuplicate, kUnknown };

  explicit AttemptFence(size_t remembered = 4096) : remembered_(remembered) {}

  // A new attempt at the choices [key.choice, key.choice + choices). kCurrent: it lives from here
  // on, and *superseded are the lower attempts at any of them that lived until now. kSuperseded: a
  // higher one was seen at one of them. kDuplicate: this one was.
  Verdict Admit(const internal::v1::AttemptKey& key, uint32_t choices,
                std::vector<internal::v1::AttemptKey>* superseded);
  // The attempt has ended, at all its choices.
  void End(const internal::v1::AttemptKey& key, uint32_t choices);
  // A message for an attempt: kCurrent, kSuperseded, or kUnknown.
  Verdict Check(const internal::v1::AttemptKey& key) const;

 private:
  using Choice = std::tuple<uint64_t, uint64_t, uint32_t>;
  struct Entry {
    uint32_t highest = 0;
    uint32_t first_choice = 0;  // that the highest covers
    bool live = false;
  };
  void Forget();

  const size_t remembered_;
  std::map<Choice, Entry> choices_;
  std::deque<Choice> ended_;  // oldest first; may name a choice that lives again
};

}  // namespace baton
