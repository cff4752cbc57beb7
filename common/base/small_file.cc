#include "common/base/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

absl::Status WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::UnavailableError(std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (fsync(fd) != 0) return absl::UnavailableError(std::strerror(errno));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes) {
  std::ifstream file(path);
  std::string text(max_bytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::strerror(errno), "; name a file that can be read"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() <= max_bytes) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is longer than ", max_bytes, " bytes; name the right file"));
}

absl::Status ReplaceSmallFile(const std::string& path, absl::string_view content) {
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);  // of mode 0600
  absl::Status status =
      fd < 0 ? absl::UnavailableError(std::strerror(errno)) : WriteAll(fd, content);
  if (fd >= 0) close(fd);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = absl::UnavailableError(std::strerror(errno));
  }
  if (status.ok()) return status;
  if (fd >= 0) unlink(temporary.c_str());
  return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be written: ", status.message(),
                                                 "; name a file in a folder that can be written"));
}

}  // namespace baton
