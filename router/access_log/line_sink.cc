#include "router/access_log/line_sink.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/base/clock.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr char kRemedy[] = "name a file in a folder where the router may write, stderr or none";

absl::Status Refused(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--access-log ", path, ": ", why, "; ", kRemedy));
}

// Whether at most half of the room in a pipe or socket is taken. True for other files.
bool HalfIsFree(int fd) {
  struct stat status = {};
  int taken = 0, room = 0;
  if (fstat(fd, &status) != 0) return true;
  if (S_ISFIFO(status.st_mode)) {
    room = fcntl(fd, F_GETPIPE_SZ);
    if (ioctl(fd, FIONREAD, &taken) != 0) return true;
  } else if (S_ISSOCK(status.st_mode)) {
    socklen_t size = sizeof(room);
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, &size) != 0) return true;
    if (ioctl(fd, SIOCOUTQ, &taken) != 0) return true;
  }
  return taken <= room / 2;
}

// Whether the file is open and was not deleted.
bool HasName(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 && status.st_nlink > 0;
}

}  // namespace

absl::Status LineSink::Check(const std::string& target) {
  if (target == kToStandardError) return absl::OkStatus();
  if (target.empty()) return Refused(target, "the name is empty");
  struct stat present = {};
  if (stat(target.c_str(), &present) == 0) {
    if (S_ISDIR(present.st_mode)) return Refused(target, std::strerror(EISDIR));
    if (S_ISSOCK(present.st_mode)) return Refused(target, "it is a socket");
    if (access(target.c_str(), W_OK) != 0) return Refused(target, std::strerror(errno));
    return absl::OkStatus();
  }
  const size_t slash = target.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  if (access(folder.c_str(), W_OK | X_OK) != 0) return Refused(target, std::strerror(errno));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LineSink>> LineSink::Open(const std::string& target) {
  BATON_RETURN_IF_ERROR(Check(target));
  const bool to_stderr = target == kToStandardError;
  auto sink = std::unique_ptr<LineSink>(new LineSink(to_stderr ? "" : target));
  if (to_stderr) {
    sink->fd_ = STDERR_FILENO;
    return sink;
  }
  if (const absl::Status status = sink->Reopen(); !status.ok()) {
    struct stat present = {};
    const bool is_pipe = stat(target.c_str(), &present) == 0 && S_ISFIFO(present.st_mode);
    if (!is_pipe) return absl::InvalidArgumentError(absl::StrCat(status.message(), "; ", kRemedy));
  }
  return sink;
}

LineSink::~LineSink() { CloseFile(); }

void LineSink::CloseFile() {
  if (!path_.empty() && fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::Status LineSink::Failed(int error) const {
  return absl::UnavailableError(
      absl::StrCat("--access-log ", path_.empty() ? kToStandardError : path_, ": ",
                   error == EAGAIN ? "its reader does not keep up" : std::strerror(error)));
}

absl::Status LineSink::Reopen() {
  constexpr mode_t kOwnerAndGroup = 0640;
  // Not to block: a named pipe without a reader would wait for one.
  const int fd =
      open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
           kOwnerAndGroup);
  if (fd < 0) return Failed(errno);
  if (fd_ >= 0) {
    absl::string_view rest = rest_;
    static_cast<void>(Put(rest));
  }
  CloseFile();
  rest_.clear();
  fd_ = fd;
  return absl::OkStatus();
}

bool LineSink::WaitForRoom() {
  constexpr absl::Duration kStep = absl::Milliseconds(5);
  const absl::Time until = SteadyNow() + (stuck_ ? absl::ZeroDuration() : kPatience);
  while (true) {
    pollfd polled{.fd = fd_, .events = POLLOUT, .revents = 0};
    stuck_ = poll(&polled, 1, 0) <= 0 || (path_.empty() && !HalfIsFree(fd_));
    if (!stuck_ || SteadyNow() >= until) return !stuck_;
    absl::SleepFor(kStep);
  }
}

absl::Status LineSink::Put(absl::string_view& text) {
  while (!text.empty()) {
    if (!WaitForRoom()) return Failed(EAGAIN);
    const ssize_t written = write(fd_, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      const int error = errno;
      if (error == EPIPE && !path_.empty()) CloseFile();  // the next line looks for a new reader
      return Failed(error);
    }
  }
  return absl::OkStatus();
}

absl::Status LineSink::Write(absl::string_view line) {
  if (!path_.empty() && (fd_ < 0 || !IsFileAt(fd_, path_))) {
    // A file that was moved away is written to until there is a new one, a deleted one is not.
    if (absl::Status status = Reopen(); !status.ok() && !HasName(fd_)) {
      CloseFile();
      return status;
    }
  }
  absl::string_view rest = rest_;
  const absl::Status status = Put(rest);
  rest_.erase(0, rest_.size() - rest.size());
  BATON_RETURN_IF_ERROR(status);
  absl::string_view left = line;
  const absl::Status written = Put(left);
  if (left.size() == line.size()) return written;
  rest_ = std::string(left);
  return absl::OkStatus();
}

}  // namespace baton
