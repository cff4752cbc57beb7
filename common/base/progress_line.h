// Shows that something long is going on: a line that is redrawn on a terminal, a line every 5 s
// elsewhere.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "common/base/clock.h"

namespace baton {

// Not thread-safe. Nothing is shown for what takes less than half a second.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what)
      : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) != 0), begin_(SteadyNow()) {}
  ~ProgressLine() {
    if (terminal_ && shown_) std::fprintf(stderr, "\r\033[K");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // To be called often.
  void Tick() {
    const absl::Duration elapsed = SteadyNow() - begin_;
    if (elapsed < next_) return;
    next_ = elapsed + (terminal_ ? absl::Milliseconds(100) : absl::Seconds(5));
    shown_ = true;
    const std::string line = absl::StrFormat("%s: %.1f s", what_, absl::ToDoubleSeconds(elapsed));
    std::fprintf(stderr, terminal_ ? "\r%s" : "%s\n", line.c_str());
  }

 private:
  const std::string what_;
  const bool terminal_;
  const absl::Time begin_;
  absl::Duration next_ = absl::Milliseconds(500);
  bool shown_ = false;
};

}  // namespace baton
