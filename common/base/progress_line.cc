#include "common/base/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/clock.h"
#include "common/base/log.h"

namespace baton {
namespace {

constexpr absl::Duration kShortest = absl::Seconds(1);
constexpr absl::Duration kBetweenBars = absl::Milliseconds(100);
constexpr absl::Duration kBetweenLogLines = absl::Seconds(5);
constexpr int kBarWidth = 20;

bool OwnsTerminal() { return isatty(STDERR_FILENO) != 0 && tcgetpgrp(STDERR_FILENO) == getpgrp(); }

}  // namespace

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), bar_(OwnsTerminal()), begin_(SteadyNow()), next_(kShortest) {}

ProgressLine::~ProgressLine() {
  if (bar_ && shown_) std::fprintf(stderr, "\r\033[K");
}

void ProgressLine::Tick(std::optional<double> done) {
  const absl::Duration elapsed = SteadyNow() - begin_;
  if (elapsed < next_ || !LogsInfo()) return;
  next_ = elapsed + (bar_ ? kBetweenBars : kBetweenLogLines);
  shown_ = true;
  const std::string line = FormatProgress(what_, done, elapsed);
  if (bar_) {
    std::fprintf(stderr, "\r%s\033[K", line.c_str());
  } else {
    LogInfo("{}", line);
  }
}

std::string FormatProgress(const std::string& what, std::optional<double> done,
                           absl::Duration elapsed) {
  const std::string seconds = absl::StrFormat(", %.1f s", absl::ToDoubleSeconds(elapsed));
  if (!done) return absl::StrCat(what, seconds);
  const double share = std::clamp(*done, 0.0, 1.0);
  const int filled = static_cast<int>(share * kBarWidth);
  return absl::StrFormat("%s [%s%s] %3d%%%s", what, std::string(static_cast<size_t>(filled), '#'),
                         std::string(static_cast<size_t>(kBarWidth - filled), '-'),
                         static_cast<int>(share * 100), seconds);
}

}  // namespace baton
