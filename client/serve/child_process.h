// A child process that never outlives its parent.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace baton {

// Not thread-safe. Start from the main thread only: the kernel ends the child when the thread that
// started it ends.
class ChildProcess {
 public:
  // argv[0] is the path of the binary. The child's stdin is /dev/null, its stdout goes to our
  // stderr, and it inherits stderr, no other descriptor, and neither a BATON_... variable nor
  // NOTIFY_SOCKET. It has a process group of its own, so that Ctrl-C in a terminal reaches only the
  // parent. NOT_FOUND if the binary cannot be executed, RESOURCE_EXHAUSTED if no process can be made.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& argv);

  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  // Kills the child if it still runs, and waits for its end.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  void Signal(int signal_number);

  // How the child ended.
  struct Exit {
    int code = 0;    // the exit code; 0 if a signal ended the child
    int signal = 0;  // the signal that ended the child; 0: none

    std::string Text() const;  // "exit code 3" or "signal 9"
  };
  // Poll does not wait, Wait waits for at most `timeout`. nullopt: the child still runs. An Exit of
  // zeros: its end was already reported.
  std::optional<Exit> Poll();
  std::optional<Exit> Wait(absl::Duration timeout);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_;  // -1: the child was reaped, or this object was moved from
};

// Reaps the children of this process that have ended and are not in `own`. A process whose parent
// ends before it becomes a child of process 1, which this process is in a container. Does not wait.
// While a process of `own` has ended and was not polled, some of the others may be left to the next
// call.
void ReapOrphans(absl::Span<const pid_t> own);

}  // namespace baton
