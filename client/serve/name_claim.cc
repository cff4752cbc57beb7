#include "client/serve/name_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "client/serve/runtime_folder.h"

namespace baton {
namespace {

// How often a file may be removed between its opening and its lock before the name counts as taken.
constexpr int kMostTries = 100;

// Whether `path` still names the open file.
bool StillNames(const std::string& path, int file) {
  struct stat opened {};
  struct stat named {};
  return fstat(file, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

std::optional<NameClaim> NameClaim::Take(const std::string& name) {
  const absl::StatusOr<std::string> folder = RuntimeFolder();
  if (!folder.ok()) return NameClaim();
  const std::string path = absl::StrCat(*folder, "/", name, ".lock");
  for (int i = 0; i < kMostTries; ++i) {
    const int file =
        open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0) return NameClaim();
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      const bool taken = errno == EWOULDBLOCK;
      close(file);
      if (taken) return std::nullopt;
      return NameClaim();
    }
    // The former owner may have removed the file after it was opened here.
    if (StillNames(path, file)) return NameClaim(path, file);
    close(file);
  }
  return std::nullopt;
}

NameClaim::~NameClaim() {
  if (file_ < 0) return;
  unlink(path_.c_str());  // while it is locked, so that no other process's file is removed
  close(file_);
}

}  // namespace baton
