#include "client/prompt_input.h"

#include <errno.h>
#include <poll.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "client/utf8_check.h"
#include "common/base/plain_text.h"
#include "common/base/standard_error.h"
#include "common/base/status_macros.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

// Returns whether a read returns at once (with data, the end or an error), after at most `timeout`.
bool IsReadable(int fd, absl::Duration timeout) {
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  const auto timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(timeout));
  int ready = poll(&polled, 1, timeout_ms);
  while (ready < 0 && errno == EINTR) ready = poll(&polled, 1, timeout_ms);
  return ready != 0;
}

// Waits for the first byte or the end. Returns false if the descriptor is to be left unread.
bool AwaitInput(const PromptInput& input) {
  if (IsReadable(input.fd, input.notice_after)) return true;
  if (!input.argument.has_value()) {
    WriteErrorLine("baton", "waiting for a prompt on standard input");
    return true;  // without an argument the read may wait as long as it takes
  }
  WriteErrorLine("baton", "waiting for standard input, which is open; `< /dev/null` leaves it out");
  if (IsReadable(input.fd, input.leave_after - input.notice_after)) return true;
  WriteErrorLine("baton",
                 absl::StrCat("nothing came from standard input for ",
                              absl::FormatDuration(input.leave_after), "; going on without it"));
  return false;
}

absl::StatusOr<std::string> ReadAll(int fd) {
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t size = read(fd, buffer, sizeof(buffer));
    if (size == 0 || (size < 0 && errno == EBADF)) return text;  // EBADF: we were started without
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("standard input cannot be read: ", std::strerror(errno)));
    }
    text.append(buffer, static_cast<size_t>(size));
    if (text.size() > kMaxPromptBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("standard input: has more than ", kMaxPromptBytes, " bytes; shorten it"));
    }
  }
}

absl::Status CheckText(absl::string_view what, absl::string_view text) {
  const absl::Status status = CheckUtf8(text);
  return status.ok() ? status
                     : absl::InvalidArgumentError(absl::StrCat(what, " ", status.message()));
}

}  // namespace

absl::StatusOr<std::optional<std::string>> ReadPrompt(const PromptInput& input) {
  std::string prompt = input.argument.value_or("");
  BATON_RETURN_IF_ERROR(CheckText("the prompt", prompt));
  const bool terminal = isatty(input.fd) != 0;
  if (terminal && !input.argument.has_value()) return std::nullopt;
  if (!terminal && AwaitInput(input)) {
    BATON_ASSIGN_OR_RETURN(std::string text, ReadAll(input.fd));
    BATON_RETURN_IF_ERROR(CheckText("standard input", text));
    if (!input.raw) {
      const std::string lines = WithUnixLineEnds(WithoutByteOrderMark(text));
      text = std::string(absl::StripSuffix(lines, "\n"));
    }
    if (!prompt.empty() && !text.empty()) prompt += "\n\n";
    prompt += text;
  }
  if (prompt.empty()) {
    return absl::InvalidArgumentError(
        "there is no prompt; give one as an argument or on standard input");
  }
  return prompt;
}

}  // namespace baton
