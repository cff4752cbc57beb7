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

Findings SecretFindings(const ServerConfig& config) {
  Findings findings;
  for (const std::string& path : config.secrets) {
    Finding finding{.check = "secret.mode", .subject = absl::StrCat(config.path, " ", path)};
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      finding.verdict = Verdict::kFailed;
      finding.found = std::strerror(errno);
      finding.remedy = "name a file that this user can read";
    } else {
      const std::string fault = SecretModeFault(status.st_mode);
      finding.found = absl::StrFormat("mode %04o", status.st_mode & 0777);
      if (!fault.empty()) {
        finding.verdict = Verdict::kFailed;
        absl::StrAppend(&finding.found, ": ", fault);
        finding.remedy = SecretModeRemedy(path);
      }
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace baton
