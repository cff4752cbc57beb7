#include "client/serve/runtime_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr char kNameAnother[] = "set XDG_RUNTIME_DIR to a folder that only this user can open";

// Whether `path` is an absolute path of a folder of this user in which no other user may write.
bool IsOwnBase(const std::string& path) {
  struct stat status {};
  return !path.empty() && path[0] == '/' && lstat(path.c_str(), &status) == 0 &&
         S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

absl::Status MakeOwnFolder(const std::string& path) {
  struct stat status {};
  if ((mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) || lstat(path.c_str(), &status) != 0) {
    return absl::UnavailableError(
        absl::StrCat(path, ": cannot be created: ", std::strerror(errno), "; ", kNameAnother));
  }
  if (!S_ISDIR(status.st_mode)) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, ": is not a folder; remove it, or ", kNameAnother));
  }
  if (status.st_uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, ": belongs to user ", status.st_uid, "; ", kNameAnother));
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::PermissionDeniedError(
        absl::StrFormat("%s: has mode %04o, which lets other users access it; run chmod 700 %s",
                        path, status.st_mode & 07777, path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RuntimeFolder() {
  const char* const variable = std::getenv("XDG_RUNTIME_DIR");
  for (const std::string& base :
       {std::string(variable == nullptr ? "" : variable), absl::StrCat("/run/user/", geteuid())}) {
    const std::string path = absl::StrCat(base, "/baton");
    if (IsOwnBase(base) && MakeOwnFolder(path).ok()) return path;
  }
  const std::string path = absl::StrCat("/tmp/baton-", geteuid());
  BATON_RETURN_IF_ERROR(MakeOwnFolder(path));
  return path;
}

}  // namespace baton
