#include "client/doctor/secret_check.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/secret_mode.h"

namespace baton {
namespace {

// The finding about the file at `path`, in whose mode `fault` finds what is wrong.
Finding Look(const ServerConfig& config, const std::string& path, std::string (*fault)(mode_t),
             std::string (*remedy)(const std::string& path)) {
  Finding finding{.check = "secret.mode", .subject = absl::StrCat(config.path, " ", path)};
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    finding.verdict = Verdict::kFailed;
    finding.found = std::strerror(errno);
    finding.remedy = "name a file that this user can read";
    return finding;
  }
  const std::string found = fault(status.st_mode);
  finding.found = absl::StrFormat("mode %04o", status.st_mode & 0777);
  if (!found.empty()) {
    finding.verdict = Verdict::kFailed;
    absl::StrAppend(&finding.found, ": ", found);
    finding.remedy = remedy(path);
  }
  return finding;
}

}  // namespace

Findings SecretFindings(const ServerConfig& config) {
  Findings findings;
  for (const std::string& path : config.secrets) {
    findings.push_back(Look(config, path, SecretModeFault, SecretModeRemedy));
  }
  if (!config.serve_keys.empty()) {
    findings.push_back(Look(config, config.serve_keys, PrivateModeFault, PrivateModeRemedy));
  }
  return findings;
}

}  // namespace baton
