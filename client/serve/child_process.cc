#include "client/serve/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/base/clock.h"

namespace baton {
namespace {

// Runs between fork and exec, so it makes only async-signal-safe calls: other threads of the parent
// may have held any lock.
[[noreturn]] void BecomeChild(char* const* argv, char* const* environment, pid_t parent,
                              int dev_null) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(0);  // the parent ended before prctl
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);  // programs that are not ours may expect it
  dup2(dev_null, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  // Descriptors that a library opened without the flag: they would stay open after our end while
  // the child serves its last requests.
  close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
  execve(argv[0], argv, environment);
  _exit(127);
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& argv) {
  if (access(argv[0].c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat(argv[0], ": ", std::strerror(errno), "; it is built beside this program"));
  }
  std::vector<char*> pointers;
  for (const std::string& arg : argv) pointers.push_back(const_cast<char*>(arg.c_str()));
  pointers.push_back(nullptr);

  // BATON_... variables are meant for the parent, which passes its children what they need by
  // flags. Nor is a child what the service manager of NOTIFY_SOCKET has started.
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool of_parent =
        absl::StartsWith(*entry, "BATON_") || absl::StartsWith(*entry, "NOTIFY_SOCKET=");
    if (!of_parent) environment.push_back(*entry);
  }
  environment.push_back(nullptr);

  const int dev_null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (dev_null < 0) return absl::InternalError(absl::StrCat("/dev/null: ", std::strerror(errno)));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) BecomeChild(pointers.data(), environment.data(), parent, dev_null);
  const int fork_error = errno;
  close(dev_null);
  if (pid < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start ", argv[0], ": ", std::strerror(fork_error)));
  }
  return ChildProcess(pid);
}

std::string ChildProcess::Exit::Text() const {
  return signal != 0 ? absl::StrCat("signal ", signal) : absl::StrCat("exit code ", code);
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::Signal(int signal_number) {
  if (pid_ > 0) kill(pid_, signal_number);
}

std::optional<ChildProcess::Exit> ChildProcess::Poll() {
  if (pid_ < 0) return Exit{};
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  if (WIFSIGNALED(status)) return Exit{.code = 0, .signal = WTERMSIG(status)};
  return Exit{.code = WEXITSTATUS(status), .signal = 0};
}

std::optional<ChildProcess::Exit> ChildProcess::Wait(absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  while (true) {
    if (auto exit = Poll(); exit.has_value()) return exit;
    if (SteadyNow() >= deadline) return std::nullopt;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

void ReapOrphans(absl::Span<const pid_t> own) {
  while (true) {
    siginfo_t ended{};
    const bool found = waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (!found || ended.si_pid == 0) return;
    if (std::find(own.begin(), own.end(), ended.si_pid) != own.end()) return;  // for its owner
    waitpid(ended.si_pid, nullptr, 0);
  }
}

}  // namespace baton
