// Shows the progress of something long: as a bar on a terminal, elsewhere as a line in the log now
// and then.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace baton {

// Shows nothing in the first second, nor where the log's level hides information. Only a process in
// the foreground of its terminal draws a bar. One in the background, such as a worker of `baton
// serve`, writes to the log. Not thread-safe.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  // Takes the bar away.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // To be called often. `done` is the fraction done, 0 to 1, if it is known.
  void Tick(std::optional<double> done = std::nullopt);

 private:
  const std::string what_;
  const bool bar_;
  const absl::Time begin_;
  absl::Duration next_;
  bool shown_ = false;
};

// Returns a text such as "loading [#####---------------]  25%, 1.5 s" or "loading, 1.5 s".
std::string FormatProgress(const std::string& what, std::optional<double> done,
                           absl::Duration elapsed);

}  // namespace baton
