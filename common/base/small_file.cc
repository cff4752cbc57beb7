#include "common/base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace baton {
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes) {
  std::ifstream file(path);
  std::string text;
  for (char part[4096]; file && text.size() <= max_bytes;) {
    file.read(part, sizeof(part));
    text.append(part, static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::strerror(errno), "; name a file that can be read"));
  }
  if (text.size() <= max_bytes) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is longer than ", max_bytes, " bytes; name the right file"));
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

absl::Status WriteSmallFile(const std::string& path, absl::string_view content,
                            const WriteOptions& options) {
  const auto cannot = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be written: ", std::strerror(errno), "; ", options.remedy));
  };
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);  // nobody else may read it so far
  if (fd < 0) return cannot();
  const absl::Cleanup close_file = [fd] { close(fd); };
  const absl::Cleanup remove_temporary = [&temporary] { unlink(temporary.c_str()); };
  if (!WriteAll(fd, content) || fsync(fd) != 0 || fchmod(fd, options.mode) != 0) return cannot();
  if (options.replace) {
    return std::rename(temporary.c_str(), path.c_str()) == 0 ? absl::OkStatus() : cannot();
  }
  // Unlike rename, link fails when another process has made the file in the meantime.
  if (link(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return errno == EEXIST ? absl::AlreadyExistsError(absl::StrCat(path, ": is there already"))
                         : cannot();
}

}  // namespace baton
