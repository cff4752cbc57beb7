// What `baton run` is asked: its argument, standard input, or both.
#pragma once

#include <unistd.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

struct PromptInput {
  std::optional<std::string> argument = std::nullopt;
  bool raw = false;  // a newline at the end of the input belongs to the prompt
  int fd = STDIN_FILENO;
  // Where nothing has come from `fd` for so long, nor its end: first a line on stderr, then, if
  // there is an argument, it is left alone. A process may have been given an open pipe that nobody
  // writes to or closes, by ssh or a service manager.
  absl::Duration notice_after = absl::Seconds(1);
  absl::Duration leave_after = absl::Seconds(10);
};

// The argument, an empty line and what `fd` holds, or the one of them that there is; nullopt where
// there is no argument and `fd` is a terminal, which a chat is held on. A terminal is never read.
// INVALID_ARGUMENT where there is nothing to ask, or something that cannot be sent.
absl::StatusOr<std::optional<std::string>> ReadPrompt(const PromptInput& input);

}  // namespace baton
