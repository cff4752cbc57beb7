#include "common/base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "common/base/plain_text.h"

namespace baton {
namespace {

// Reads up to one byte more than `max_bytes`. False, with errno, when it cannot.
bool ReadUpTo(int fd, size_t max_bytes, std::string& text) {
  char part[4096];
  while (text.size() <= max_bytes) {
    const ssize_t count = read(fd, part, sizeof(part));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count == 0;
    text.append(part, static_cast<size_t>(count));
  }
  return true;
}

absl::StatusOr<std::string> ReadOpened(const std::string& path, int flags, size_t max_bytes) {
  const auto error = [&path](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what...));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  const absl::Cleanup close_file = [fd] {
    if (fd >= 0) close(fd);
  };
  struct stat state {};
  if (fd < 0 || fstat(fd, &state) != 0) {
    return error(std::strerror(errno), "; name a file that can be read");
  }
  if ((flags & O_NONBLOCK) != 0 && !S_ISREG(state.st_mode)) {
    return error("is not a regular file; name one");
  }
  std::string text;
  if (!ReadUpTo(fd, max_bytes, text)) {
    return error(std::strerror(errno), "; name a file that can be read");
  }
  if (text.size() <= max_bytes) return std::string(WithoutByteOrderMark(text));
  return error("is longer than ", max_bytes, " bytes; name the right file");
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes) {
  // Without O_NONBLOCK, opening a pipe without a writer would wait.
  return ReadOpened(path, O_NONBLOCK, max_bytes);
}

absl::StatusOr<std::string> ReadSmallFileOrPipe(const std::string& path, size_t max_bytes) {
  return ReadOpened(path, 0, max_bytes);
}

bool WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool IsFileAt(int fd, const std::string& path) {
  struct stat at_path = {}, held = {};
  return stat(path.c_str(), &at_path) == 0 && fstat(fd, &held) == 0 &&
         at_path.st_dev == held.st_dev && at_path.st_ino == held.st_ino;
}

absl::Status WriteSmallFile(const std::string& path, absl::string_view content,
                            const WriteOptions& options) {
  const auto cannot = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be written: ", std::strerror(errno), "; ", options.remedy));
  };
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);  // only this user may read it so far
  if (fd < 0) return cannot();
  const absl::Cleanup close_file = [fd] { close(fd); };
  const absl::Cleanup remove_temporary = [&temporary] { unlink(temporary.c_str()); };
  if (!WriteAll(fd, content) || fsync(fd) != 0 || fchmod(fd, options.mode) != 0) return cannot();
  if (options.replace) {
    return std::rename(temporary.c_str(), path.c_str()) == 0 ? absl::OkStatus() : cannot();
  }
  // Unlike rename, link fails when another process has made the file in the meantime.
  if (link(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return errno == EEXIST ? absl::AlreadyExistsError(absl::StrCat(path, ": already exists"))
                         : cannot();
}

}  // namespace baton
