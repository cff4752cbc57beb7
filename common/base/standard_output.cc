#include "common/base/standard_output.h"

#include <errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace baton {

void WriteOutput(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      _exit(kExitReaderGone);
    } else if (errno != EINTR) {
      std::fprintf(stderr, "%s: cannot write to standard output: %s\n",
                   program_invocation_short_name, std::strerror(errno));
      _exit(kExitOutput);
    }
  }
}

}  // namespace baton
