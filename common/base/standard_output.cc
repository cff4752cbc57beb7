#include "common/base/standard_output.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

#include "common/base/standard_error.h"
#include "common/base/terminal_text.h"

namespace baton {
namespace {

std::atomic<bool> ended_by_sigpipe = false;  // before IgnoreSigpipe

[[noreturn]] void EndWithoutReader() {
  if (ended_by_sigpipe) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
  }
  _exit(kExitReaderGone);
}

void WriteOrEnd(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      EndWithoutReader();
    } else if (errno != EINTR) {
      WriteErrorLine(program_invocation_short_name,
                     absl::StrCat("cannot write to standard output: ", std::strerror(errno)));
      _exit(kExitOutput);
    }
  }
}

bool OutputIsTerminal() { return isatty(STDOUT_FILENO) != 0; }

ABSL_CONST_INIT absl::Mutex terminal_mutex(absl::kConstInit);
TerminalFilter terminal_filter ABSL_GUARDED_BY(terminal_mutex);

}  // namespace

void IgnoreSigpipe() {
  if (signal(SIGPIPE, SIG_IGN) == SIG_DFL) ended_by_sigpipe = true;
}

void WriteOutput(absl::string_view text) {
  if (!OutputIsTerminal()) return WriteOrEnd(text);
  absl::MutexLock lock(&terminal_mutex);
  WriteOrEnd(terminal_filter.Filter(text));
}

int TerminalColumns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void ClearTerminal() {
  if (OutputIsTerminal()) WriteOrEnd("\033[H\033[2J\033[3J");
}

}  // namespace baton
