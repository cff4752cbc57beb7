// Shows that something long is going on: a bar on a terminal, now and then a line in the log
// elsewhere.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace baton {

// Nothing is shown for what takes less than a second, nor where the log takes no information. The
// terminal belongs to its foreground: a process started in the background, as the workers of `baton
// serve` are, writes to the log. Not thread-safe.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  // Takes the bar away.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // To be called often. `done`: 0..1, where that is known.
  void Tick(std::optional<double> done = std::nullopt);

 private:
  const std::string what_;
  const bool bar_;
  const absl::Time begin_;
  absl::Duration next_;
  bool shown_ = false;
};

// "loading [#####---------------]  25%, 1.5 s", or "loading, 1.5 s".
std::string FormatProgress(const std::string& what, std::optional<double> done,
                           absl::Duration elapsed);

}  // namespace baton
