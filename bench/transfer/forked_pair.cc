#include "bench/transfer/forked_pair.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr char kErrorMark = '!';

double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void WriteLine(int fd, const std::string& text) {
  const std::string line = text + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t written = write(fd, line.data() + at, line.size() - at);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

// A forked process and the pipe on which it sends its lines.
class Child {
 public:
  // Runs `body` in a new process, with the end of the pipe to write to, and then ends that process.
  static absl::StatusOr<Child> Fork(const std::function<void(int fd)>& body) {
    int ends[2];
    if (pipe(ends) != 0) {
      return absl::ResourceExhaustedError("cannot create a pipe: no file descriptor left");
    }
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);  // the parent ended before prctl
      close(ends[0]);
      body(ends[1]);
      std::fflush(nullptr);
      _exit(0);
    }
    close(ends[1]);
    if (pid < 0) {
      close(ends[0]);
      return absl::ResourceExhaustedError("cannot create a new process");
    }
    return Child(pid, ends[0]);
  }
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), fd_(std::exchange(other.fd_, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid_ < 0) return;
    close(fd_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }

  // The next line from the process, or the error that the process sent in its place.
  absl::StatusOr<std::string> ReadLine(absl::Time deadline) {
    std::string line;
    while (true) {
      pollfd readable{.fd = fd_, .events = POLLIN, .revents = 0};
      const int64_t left_ms = absl::ToInt64Milliseconds(deadline - SteadyNow());
      if (left_ms <= 0 || poll(&readable, 1, static_cast<int>(left_ms)) <= 0) {
        return absl::DeadlineExceededError("the transfer took too long");
      }
      char byte = 0;
      if (read(fd_, &byte, 1) != 1) {
        return absl::InternalError("a process of the measurement ended early");
      }
      if (byte == '\n') break;
      line.push_back(byte);
    }
    if (!line.empty() && line[0] == kErrorMark) return absl::InternalError(line.substr(1));
    return line;
  }

 private:
  Child(pid_t pid, int fd) : pid_(pid), fd_(fd) {}
  pid_t pid_;
  int fd_;
};

std::string ErrorLine(const absl::Status& status) {
  return absl::StrCat(std::string(1, kErrorMark), std::string(status.message()));
}

}  // namespace

std::string EncodeSamples(const std::vector<TransferSample>& samples) {
  std::string line;
  for (const TransferSample& sample : samples) {
    absl::StrAppendFormat(&line, "%d %.9f %.9f;", sample.bytes, sample.seconds, sample.cpu_seconds);
  }
  return line;
}

absl::StatusOr<std::vector<TransferSample>> DecodeSamples(const std::string& line) {
  std::vector<TransferSample> samples;
  for (const absl::string_view part : absl::StrSplit(line, ';', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(part, ' ');
    TransferSample sample;
    if (words.size() != 3 || !absl::SimpleAtoi(words[0], &sample.bytes) ||
        !absl::SimpleAtod(words[1], &sample.seconds) ||
        !absl::SimpleAtod(words[2], &sample.cpu_seconds)) {
      return absl::InternalError("a process of the measurement said something else than figures");
    }
    samples.push_back(sample);
  }
  return samples;
}

TransferMeter::TransferMeter(pid_t peer) {
  if (clock_getcpuclockid(peer, &peer_clock_) != 0) peer_clock_ = CLOCK_PROCESS_CPUTIME_ID;
  cpu_begin_ = CpuSeconds();
  begin_ = SteadyNow();
}

TransferSample TransferMeter::Stop(uint64_t bytes) const {
  const double seconds = absl::ToDoubleSeconds(SteadyNow() - begin_);
  return {.bytes = bytes, .seconds = seconds, .cpu_seconds = CpuSeconds() - cpu_begin_};
}

double TransferMeter::CpuSeconds() const {
  return Seconds(CLOCK_PROCESS_CPUTIME_ID) + Seconds(peer_clock_);
}

absl::StatusOr<std::vector<TransferSample>> RunForkedPair(
    const std::function<absl::Status(const ReadyFunction& ready)>& receive,
    const std::function<absl::StatusOr<std::vector<TransferSample>>(const std::string& address,
                                                                    pid_t receiver)>& send,
    absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  std::fflush(nullptr);
  BATON_ASSIGN_OR_RETURN(
      Child receiver, Child::Fork([&](int fd) {
        WriteLine(fd,
                  ErrorLine(receive([fd](const std::string& address) { WriteLine(fd, address); })));
      }));
  BATON_ASSIGN_OR_RETURN(const std::string address, receiver.ReadLine(deadline));
  const pid_t receiver_pid = receiver.pid();
  BATON_ASSIGN_OR_RETURN(
      Child sender, Child::Fork([&](int fd) {
        const auto samples = send(address, receiver_pid);
        WriteLine(fd, samples.ok() ? EncodeSamples(*samples) : ErrorLine(samples.status()));
      }));
  BATON_ASSIGN_OR_RETURN(const std::string line, sender.ReadLine(deadline));
  return DecodeSamples(line);
}

absl::StatusOr<std::vector<TransferSample>> RunMeasuringProgram(
    const std::vector<std::string>& argv, absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  std::vector<char*> pointers;
  for (const std::string& arg : argv) pointers.push_back(const_cast<char*>(arg.c_str()));
  pointers.push_back(nullptr);
  if (access(argv[0].c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat(
        argv[0], " is missing or cannot be executed; build it together with this program"));
  }
  BATON_ASSIGN_OR_RETURN(Child child, Child::Fork([&](int fd) {
                           dup2(fd, STDOUT_FILENO);
                           execv(argv[0].c_str(), pointers.data());
                         }));
  BATON_ASSIGN_OR_RETURN(const std::string line, child.ReadLine(deadline));
  return DecodeSamples(line);
}

}  // namespace baton
