// Which attempt at a choice of a request is the current one: a higher attempt ends lower ones, a
// late lower one is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>

#include "baton/internal/v1/common.pb.h"

namespace baton {

// Pure; not thread-safe. Remembers choices without a live attempt too, the last `remembered` of
// them, so that what comes late finds the fence still standing.
class AttemptFence {
 public:
  enum class Verdict { kCurrent, kSuperseded, kDuplicate, kUnknown };

  explicit AttemptFence(size_t remembered = 4096) : remembered_(remembered) {}

  // A new attempt. kCurrent: it lives from here on, and *superseded is the lower attempt that lived
  // until now (0: none). kSuperseded: a higher one was seen. kDuplicate: this one was seen.
  Verdict Admit(const internal::v1::AttemptKey& key, uint32_t* superseded);
  // The attempt has ended.
  void End(const internal::v1::AttemptKey& key);
  // A message for an attempt: kCurrent, kSuperseded, or kUnknown.
  Verdict Check(const internal::v1::AttemptKey& key) const;

 private:
  using Choice = std::tuple<uint64_t, uint64_t, uint32_t>;
  struct Entry {
    uint32_t highest = 0;
    bool live = false;
  };
  void Forget();

  const size_t remembered_;
  std::map<Choice, Entry> choices_;
  std::deque<Choice> ended_;  // oldest first; may name a choice that lives again
};

}  // namespace baton
