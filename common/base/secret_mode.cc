#include "common/base/secret_mode.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/log.h"

namespace baton {
namespace {

// The mode as chmod takes it, such as "0640".
std::string Digits(mode_t mode) { return absl::StrFormat("%04o", mode & 07777); }

}  // namespace

std::string SecretModeFault(mode_t mode) {
  if ((mode & (S_IWGRP | S_IWOTH)) != 0) return "others may replace it";
  if ((mode & S_IROTH) != 0) return "everybody may read it";
  return "";
}

std::string PrivateModeFault(mode_t mode) {
  if (std::string fault = SecretModeFault(mode); !fault.empty()) return fault;
  if ((mode & S_IRGRP) != 0) return "its group may read it";
  return (mode & (S_IRWXG | S_IRWXO)) != 0 ? "others have rights to it" : "";
}

std::string PrivateModeRemedy(const std::string& path) { return absl::StrCat("chmod 600 ", path); }

absl::Status CheckPrivateMode(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return absl::OkStatus();
  const std::string fault = PrivateModeFault(status.st_mode);
  if (fault.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": mode ", Digits(status.st_mode), ": ",
                                                 fault, "; ", PrivateModeRemedy(path)));
}

std::string SecretModeRemedy(const std::string& path) {
  // The kubelet makes each file of a volume a link to the folder ..data, which it replaces.
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(path, error);
  if (!error && absl::StartsWith(target.string(), "..data/")) {
    return "give its volume in the pod `defaultMode: 0440`";
  }
  return PrivateModeRemedy(path);
}

void WarnOfSecretMode(absl::string_view what, const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return;
  const std::string fault = SecretModeFault(status.st_mode);
  if (fault.empty()) return;
  LogWarning("{} {}: mode {}: {}; {}", LogSafe(what), LogSafe(path), Digits(status.st_mode), fault,
             LogSafe(SecretModeRemedy(path)));
}

}  // namespace baton
