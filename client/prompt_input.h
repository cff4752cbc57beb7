// Reads the prompt of `baton run`: its argument, standard input, or both.
#pragma once

#include <unistd.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

struct PromptInput {
  std::optional<std::string> argument = std::nullopt;
  // Keep each byte of standard input. Otherwise a byte order mark and the newline at the end are left
  // out, and "\r\n" is "\n".
  bool raw = false;
  int fd = STDIN_FILENO;
  // How long to wait for the first byte or the end of `fd` before a line on stderr says so, and,
  // counted from the beginning too, before `fd` is left unread if there is an argument. ssh or a
  // service manager may give a process an open pipe that is neither written to nor closed.
  absl::Duration notice_after = absl::Seconds(1);
  absl::Duration leave_after = absl::Seconds(10);
};

// Returns the argument, an empty line and the text of `fd`, or the only one of the two that exists.
// Returns nullopt if there is no argument and `fd` is a terminal: the caller then holds a chat. A
// terminal is never read. INVALID_ARGUMENT if there is no prompt, if `fd` cannot be read, or if the
// text is not UTF-8 or longer than kMaxPromptBytes.
absl::StatusOr<std::optional<std::string>> ReadPrompt(const PromptInput& input);

}  // namespace baton
