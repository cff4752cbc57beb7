// A child process that never outlives its parent.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

// Not thread-safe. Start from the main thread only: the kernel ends the child when the thread that
// started it ends.
class ChildProcess {
 public:
  // argv[0] is the path of the binary. stdin is /dev/null, stdout goes to stderr, stderr is
  // inherited. The child has a process group of its own, so that Ctrl-C in a terminal reaches the
  // parent alone.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& argv);

  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  // Kills it when it still runs.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  void Signal(int signal_number);

  // How it ended; nothing while it runs (Wait: after `timeout`).
  struct Exit {
    int code = 0;    // of exit(), 0 where a signal ended it
    int signal = 0;  // 0: none
  };
  std::optional<Exit> Poll();
  std::optional<Exit> Wait(absl::Duration timeout);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_;  // -1: ended and reaped, or moved from
};

}  // namespace baton
