#include "common/base/standard_output.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

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

}  // namespace

void IgnoreSigpipe() {
  if (signal(SIGPIPE, SIG_IGN) == SIG_DFL) ended_by_sigpipe = true;
}

void WriteOutput(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      EndWithoutReader();
    } else if (errno != EINTR) {
      std::fprintf(stderr, "%s: cannot write to standard output: %s\n",
                   program_invocation_short_name, std::strerror(errno));
      _exit(kExitOutput);
    }
  }
}

}  // namespace baton
