#include "common/base/secret_mode.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/log.h"

namespace baton {

std::string SecretModeFault(mode_t mode) {
  if ((mode & (S_IWGRP | S_IWOTH)) != 0) return "others may replace it";
  if ((mode & S_IROTH) != 0) return "everybody may read it";
  return "";
}

std::string SecretModeRemedy(const std::string& path) {
  // The kubelet makes each file of a volume a link to the folder ..data, which it replaces.
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(path, error);
  if (!error && absl::StartsWith(target.string(), "..data/")) {
    return "give its volume in the pod `defaultMode: 0440`";
  }
  return absl::StrCat("chmod 600 ", path);
}

void WarnOfSecretMode(absl::string_view what, const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return;
  const std::string fault = SecretModeFault(status.st_mode);
  if (fault.empty()) return;
  LogWarning("{} {}: mode {}: {}; {}", LogSafe(what), LogSafe(path),
             absl::StrFormat("%04o", status.st_mode & 07777), fault,
             LogSafe(SecretModeRemedy(path)));
}

}  // namespace baton
