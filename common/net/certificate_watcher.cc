#include "common/net/certificate_watcher.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/base/log.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

absl::Status NoMemoryFile() {
  return absl::ResourceExhaustedError(absl::StrCat(
      "certificates cannot be kept in memory: ", std::strerror(errno), "; raise ulimit -n"));
}

}  // namespace

absl::Status MemoryFile::Replace(const std::string& contents) {
  const int file = memfd_create("baton-tls", MFD_CLOEXEC);
  if (file < 0) return NoMemoryFile();
  const timespec version{.tv_sec = version_ + 1, .tv_nsec = 0};
  const timespec times[] = {version, version};
  // dup3 puts the new file under the old descriptor in one step.
  if (!WriteAll(file, contents) || futimens(file, times) != 0 ||
      (descriptor_ >= 0 && dup3(file, descriptor_, O_CLOEXEC) < 0)) {
    const absl::Status status = NoMemoryFile();
    close(file);
    return status;
  }
  if (descriptor_ < 0) {
    descriptor_ = file;
  } else {
    close(file);
  }
  ++version_;
  return absl::OkStatus();
}

std::string MemoryFile::path() const { return absl::StrCat("/proc/self/fd/", descriptor_); }

absl::StatusOr<std::unique_ptr<CertificateWatcher>> CertificateWatcher::Start(const TlsFlags& tls,
                                                                              absl::Duration poll) {
  BATON_ASSIGN_OR_RETURN(CertificateTexts texts, ReadCertificateFiles(tls));
  BATON_ASSIGN_OR_RETURN(const CertificateFacts facts, CheckCertificates(tls, texts, absl::Now()));
  std::unique_ptr<CertificateWatcher> watcher(new CertificateWatcher(tls));
  BATON_RETURN_IF_ERROR(watcher->Publish(texts, facts));
  watcher->thread_.emplace(poll, [watcher = watcher.get()] { watcher->Look(); });
  return watcher;
}

CertificateWatcher::State CertificateWatcher::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

absl::Status CertificateWatcher::Publish(const CertificateTexts& texts,
                                         const CertificateFacts& facts) {
  // Key and chain are one file, so that they cannot be of different pairs.
  if (tls_.own_certificate()) {
    BATON_RETURN_IF_ERROR(identity_.Replace(absl::StrCat(texts.key, "\n", texts.chain)));
  }
  BATON_RETURN_IF_ERROR(roots_.Replace(texts.roots));
  taken_ = texts;
  absl::MutexLock lock(&mutex_);
  state_.facts = facts;
  return absl::OkStatus();
}

absl::Status CertificateWatcher::Reload(const absl::StatusOr<CertificateTexts>& texts) {
  if (!texts.ok()) return texts.status();
  BATON_ASSIGN_OR_RETURN(const CertificateFacts facts,
                         CheckCertificates(tls_, *texts, absl::Now()));
  // Authorities are often replaced before the certificate or after it.
  if (state().facts.signed_by_root && !facts.signed_by_root) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-cert ", tls_.cert_file, ": is not signed by --tls-ca ", tls_.ca_file,
                     " any more; renew it, and keep the former authority in the file until then"));
  }
  BATON_RETURN_IF_ERROR(Publish(*texts, facts));
  absl::MutexLock lock(&mutex_);
  ++state_.reloads;
  return absl::OkStatus();
}

void CertificateWatcher::Look() {
  absl::StatusOr<CertificateTexts> found = ReadCertificateFiles(tls_);
  if (found.ok() && *found == taken_) {
    seen_ = std::move(found);
    refusal_.clear();
    return;
  }
  const bool settled =
      found.ok() ? seen_.ok() && *seen_ == *found : seen_.status() == found.status();
  seen_ = std::move(found);
  if (!settled) {  // somebody may be writing
    refusal_.clear();
    return;
  }
  const absl::Status status = Reload(seen_);
  if (status.ok()) {
    LogInfo("took renewed certificates, which are valid until {}",
            absl::FormatTime(state().facts.chain_ends, absl::UTCTimeZone()));
  } else if (refusal_ != status.message()) {
    refusal_ = std::string(status.message());
    LogWarning("renewed certificates are not taken, the former ones stay in use until {}: {}",
               absl::FormatTime(state().facts.chain_ends, absl::UTCTimeZone()), refusal_);
    absl::MutexLock lock(&mutex_);
    ++state_.failed_reloads;
  }
}

}  // namespace baton
