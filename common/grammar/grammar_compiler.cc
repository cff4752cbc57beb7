#include "common/grammar/grammar_compiler.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"
#include "common/grammar/compiled_grammar.h"

namespace baton {
namespace {

// What a process may write: a grammar with its header, or an error.
constexpr size_t kMaxReplyBytes = kMaxPackedGrammarBytes + 4096;

constexpr absl::Duration kAskInterval = absl::Milliseconds(10);  // is_wanted

// How long a process is waited for.
struct Patience {
  absl::Time deadline;
  absl::FunctionRef<bool()> is_wanted;
};

absl::Status SystemError(absl::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// A file in memory with these bytes, which children inherit only if they are given it.
absl::StatusOr<int> MemoryFile(const char* name, absl::string_view bytes) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return SystemError("cannot make a file in memory");
  if (!WriteAll(fd, bytes)) {
    absl::Status error = SystemError("cannot write a file in memory");
    close(fd);
    return error;
  }
  return fd;
}

// A process that ends with this object.
class Compilation {
 public:
  ~Compilation() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (replies_ >= 0) close(replies_);
  }

  // Starts the program with `spec` as its input, `vocabulary` as descriptor 3, and a pipe to us as
  // its output. Between fork and exec runs the C library's code alone, so other threads may hold
  // any lock.
  absl::Status Start(const std::string& program, const GrammarLimits& limits, int spec,
                     int vocabulary);
  // What the process wrote until it closed its output. RESOURCE_EXHAUSTED at more than
  // kMaxReplyBytes. Here and below: DEADLINE_EXCEEDED or CANCELLED at the end of the patience.
  absl::StatusOr<std::string> Read(const Patience& patience);
  // Its status, as waitpid returns it.
  absl::StatusOr<int> Wait(const Patience& patience);

 private:
  pid_t pid_ = -1;    // -1: not started, or reaped
  int replies_ = -1;  // our end of the pipe
};

absl::Status Compilation::Start(const std::string& program, const GrammarLimits& limits, int spec,
                                int vocabulary) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("cannot make a pipe");
  replies_ = ends[0];
  const absl::Cleanup close_write_end = [&] { close(ends[1]); };

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy = [&] {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  };
  posix_spawn_file_actions_adddup2(&files, spec, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, vocabulary, STDERR_FILENO + 1);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);

  std::string cpu = absl::StrCat(limits.cpu_seconds);
  std::string memory = absl::StrCat(limits.memory_bytes);
  std::string stack = absl::StrCat(limits.stack_bytes);
  std::string name = program;
  char* argv[] = {name.data(), cpu.data(), memory.data(), stack.data(), nullptr};
  char* environment[] = {nullptr};
  const int error = posix_spawn(&pid_, program.c_str(), &files, &attributes, argv, environment);
  if (error == 0) return absl::OkStatus();
  pid_ = -1;
  errno = error;
  return SystemError(absl::StrCat("cannot start ", program));
}

// Waits until `fd` is readable.
absl::Status WaitFor(int fd, const Patience& patience) {
  pollfd waited{.fd = fd, .events = POLLIN, .revents = 0};
  while (true) {
    const absl::Duration left = patience.deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("");
    const int64_t wait_ms = absl::ToInt64Milliseconds(std::min(left, kAskInterval)) + 1;
    const int ready = poll(&waited, 1, static_cast<int>(wait_ms));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return SystemError("poll");
    // tests/planted_bugs: grammar_compiled_for_nobody
    if (!patience.is_wanted()) return absl::CancelledError("nobody waits for the grammar");
  }
}

absl::StatusOr<std::string> Compilation::Read(const Patience& patience) {
  std::string reply;
  char piece[64 << 10];
  while (true) {
    BATON_RETURN_IF_ERROR(WaitFor(replies_, patience));
    const ssize_t count = read(replies_, piece, sizeof(piece));
    if (count == 0) return reply;
    if (count < 0 && errno != EINTR) return SystemError("cannot read what was compiled");
    if (count > 0) reply.append(piece, static_cast<size_t>(count));
    if (reply.size() > kMaxReplyBytes) {
      return absl::ResourceExhaustedError("the grammar compiler's reply is too large");
    }
  }
}

absl::StatusOr<int> Compilation::Wait(const Patience& patience) {
  // glibc 2.36 declares pidfd_open for C alone.
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (process < 0) return SystemError("cannot watch the compiler's process");
  const absl::Cleanup close_process = [&] { close(process); };
  BATON_RETURN_IF_ERROR(WaitFor(process, patience));
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  return status;
}

// The result of a process that ended with this status.
absl::StatusOr<std::string> Result(const GrammarSpec& spec, const GrammarLimits& limits, int status,
                                   absl::string_view reply) {
  const auto refused = [&](auto... why) {
    return absl::InvalidArgumentError(absl::StrCat(GrammarField(spec.kind), ": it ", why...));
  };
  if (WIFSIGNALED(status)) {
    const int signal_number = WTERMSIG(status);
    if (signal_number == SIGXCPU) {
      return refused("takes more than ", limits.cpu_seconds, " s to compile; ask for less");
    }
    if (signal_number == SIGSEGV || signal_number == SIGBUS) {
      return refused("is nested too deeply to compile; ask for less");
    }
    if (signal_number == SIGKILL) {
      return absl::ResourceExhaustedError(
          absl::StrCat(GrammarField(spec.kind),
                       ": the kernel killed the process that compiled it, since the machine is "
                       "short of memory; try again later"));
    }
  }
  // The program's first byte is the code of a status.
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || reply.empty()) {
    return absl::InternalError(
        absl::StrCat(GrammarField(spec.kind), ": the compiler failed with status ", status));
  }
  const auto code = static_cast<absl::StatusCode>(reply[0]);
  reply.remove_prefix(1);
  if (code == absl::StatusCode::kOk) return std::string(reply);
  if (code == absl::StatusCode::kResourceExhausted) {
    return refused("takes more than ", limits.memory_bytes >> 20, " MiB to compile; ask for less");
  }
  return absl::Status(code, reply);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrammarCompiler>> GrammarCompiler::Create(
    std::string program, absl::string_view vocabulary, const GrammarLimits& limits) {
  if (access(program.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat(program, ": ", std::strerror(errno), "; it is built beside this program"));
  }
  BATON_ASSIGN_OR_RETURN(const int fd, MemoryFile("vocabulary", vocabulary));
  return std::unique_ptr<GrammarCompiler>(new GrammarCompiler(std::move(program), fd, limits));
}

GrammarCompiler::~GrammarCompiler() { close(vocabulary_fd_); }

absl::StatusOr<std::string> GrammarCompiler::Compile(const GrammarSpec& spec,
                                                     absl::FunctionRef<bool()> is_wanted) const {
  BATON_RETURN_IF_ERROR(ValidateGrammarSpec(spec));
  BATON_ASSIGN_OR_RETURN(const int input, MemoryFile("grammar", SerializeGrammarSpec(spec)));
  const absl::Cleanup close_input = [&] { close(input); };
  const Patience patience{.deadline = SteadyNow() + limits_.wall_time, .is_wanted = is_wanted};
  Compilation compilation;
  BATON_RETURN_IF_ERROR(compilation.Start(program_, limits_, input, vocabulary_fd_));
  const absl::StatusOr<std::string> reply = compilation.Read(patience);
  const absl::StatusOr<int> status = reply.ok() ? compilation.Wait(patience) : reply.status();
  if (absl::IsDeadlineExceeded(status.status())) {
    // It had less of a CPU than its limit, so that the spec is not known to be too costly.
    return absl::ResourceExhaustedError(absl::StrCat(
        GrammarField(spec.kind), ": it was not compiled within ",
        absl::FormatDuration(limits_.wall_time), ", since the machine is busy; try again later"));
  }
  BATON_RETURN_IF_ERROR(status.status());
  return Result(spec, limits_, *status, *reply);
}

}  // namespace baton
