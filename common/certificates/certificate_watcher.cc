#include "common/certificates/certificate_watcher.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/base/log.h"
#include "common/base/secret_mode.h"
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
  BATON_ASSIGN_OR_RETURN(const CertificateTexts texts, ReadCertificateFiles(tls));
  BATON_ASSIGN_OR_RETURN(const CertificateFacts facts, CheckCertificates(tls, texts, absl::Now()));
  BATON_ASSIGN_OR_RETURN(const std::string lists, ReadRevocationFile(tls));
  std::unique_ptr<CertificateWatcher> watcher(new CertificateWatcher(tls));
  BATON_RETURN_IF_ERROR(watcher->Publish(texts, facts));
  BATON_RETURN_IF_ERROR(watcher->PublishLists(lists));
  watcher->certificates_.emplace(texts);
  watcher->lists_.emplace(lists);
  watcher->thread_.emplace(poll, [watcher = watcher.get()] {
    watcher->Look();
    watcher->LookAtLists();
  });
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
  if (tls_.uses_ca()) BATON_RETURN_IF_ERROR(roots_.Replace(texts.roots));
  trust_->SetTrustDomain(facts.trust_domain);
  absl::MutexLock lock(&mutex_);
  state_.facts = facts;
  return absl::OkStatus();
}

absl::Status CertificateWatcher::PublishLists(const std::string& text) {
  BATON_ASSIGN_OR_RETURN(std::vector<RevocationList> lists,
                         CheckRevocationLists(tls_, text, absl::Now()));
  absl::Time end = absl::InfiniteFuture();
  for (const RevocationList& list : lists) end = std::min(end, ValidUntil(*list));
  trust_->SetRevoked(std::move(lists));
  absl::MutexLock lock(&mutex_);
  state_.lists_end = end;
  return absl::OkStatus();
}

absl::Status CertificateWatcher::Reload(const CertificateTexts& texts) {
  BATON_ASSIGN_OR_RETURN(const CertificateFacts facts, CheckCertificates(tls_, texts, absl::Now()));
  // Authorities are often replaced before the certificate or after it. One for clients only may be
  // signed by any authority.
  if (!tls_.for_clients_only && state().facts.signed_by_root && !facts.signed_by_root) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-cert ", tls_.cert_file, ": is not signed by --tls-ca ", tls_.ca_file,
                     " any more; renew it, and keep the former authority in the file until then"));
  }
  return Publish(texts, facts);
}

void CertificateWatcher::Look() {
  const auto news = certificates_->Look(
      ReadCertificateFiles(tls_), [this](const CertificateTexts& texts) { return Reload(texts); });
  if (!news.has_value()) return;
  if (news->ok() && tls_.own_certificate()) WarnOfSecretMode("--tls-key", tls_.key_file);
  Tell(*news, "certificates", state().facts.chain_ends);
}

void CertificateWatcher::LookAtLists() {
  const auto news = lists_->Look(ReadRevocationFile(tls_),
                                 [this](const std::string& text) { return PublishLists(text); });
  const absl::Time end = state().lists_end;
  if (news.has_value()) Tell(*news, "revocation lists", end);
  const bool outdated = end < absl::Now();
  if (outdated && !lists_outdated_) {
    LogWarning("--tls-crl {}: was good until {} and stays in use; get a new one", tls_.crl_file,
               absl::FormatTime(end, absl::UTCTimeZone()));
  }
  lists_outdated_ = outdated;
}

void CertificateWatcher::Tell(const absl::Status& status, const char* what, absl::Time end) {
  const std::string until = absl::FormatTime(end, absl::UTCTimeZone());
  if (status.ok()) {
    LogInfo("took renewed {}, which are good until {}", what, until);
  } else {
    LogWarning("renewed {} are not taken, the former ones stay in use and are good until {}: {}",
               what, until, std::string(status.message()));
  }
  absl::MutexLock lock(&mutex_);
  ++(status.ok() ? state_.reloads : state_.failed_reloads);
}

}  // namespace baton
