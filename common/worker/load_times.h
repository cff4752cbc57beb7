// Measures each stage of a start for the log, which shows what a slow start waits for.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "common/base/clock.h"

namespace baton {

// Not thread-safe.
class LoadTimes {
 public:
  // The stage took the time since the stage before it, or since this was made.
  void Took(std::string stage);
  // The whole time, then that of each stage in order; stages of less than 50 ms are left out:
  // "5.2 s: weights 3.1 s, identity 1.9 s".
  std::string Text() const;
  // Logs Text if it was a second or more: a shorter start needs no explanation.
  void Log() const;

 private:
  absl::Time last_ = SteadyNow();  // when the last stage ended
  std::vector<std::pair<std::string, absl::Duration>> stages_;
};

// The text for stages that took so long, one after the other.
std::string LoadTimesText(const std::vector<std::pair<std::string, absl::Duration>>& stages);

}  // namespace baton
