// Lets a repeated log line through now and then.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <string>

#include "absl/time/time.h"

namespace baton {

// Remembers the last few texts by their hashes. Pure; not thread-safe.
class RecentTexts {
 public:
  static constexpr size_t kTexts = 16;
  static constexpr absl::Duration kPause = absl::Minutes(5);

  // Returns whether `text` was not let through within kPause before `now`, and remembers it if so.
  bool Take(const std::string& text, absl::Time now) {
    const size_t hash = std::hash<std::string>()(text);
    const auto found = std::find_if(texts_.begin(), texts_.end(), [&](const Text& one) {
      return one.hash == hash && now - one.at < kPause;
    });
    if (found != texts_.end()) return false;
    *std::min_element(texts_.begin(), texts_.end(),
                      [](const Text& a, const Text& b) { return a.at < b.at; }) = {hash, now};
    return true;
  }

 private:
  struct Text {
    size_t hash = 0;
    absl::Time at = absl::InfinitePast();
  };
  std::array<Text, kTexts> texts_{};
};

}  // namespace baton
