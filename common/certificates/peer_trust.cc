#include "common/certificates/peer_trust.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/grpc_security_constants.h"

#include "common/base/status_macros.h"

namespace baton {

void PeerTrust::SetTrustDomain(const std::string& trust_domain) {
  absl::MutexLock lock(&mutex_);
  trust_domain_ = trust_domain;
}

void PeerTrust::SetRevoked(std::vector<RevocationList> lists) {
  absl::MutexLock lock(&mutex_);
  lists_ = std::move(lists);
  known_.clear();
}

absl::Status PeerTrust::Check(const grpc::AuthContext& peer) const {
  absl::MutexLock lock(&mutex_);
  if (lists_.empty()) return absl::OkStatus();
  for (const char* property :
       {GRPC_X509_PEM_CERT_PROPERTY_NAME, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME}) {
    for (const grpc::string_ref& pem : peer.FindPropertyValues(property)) {
      BATON_RETURN_IF_ERROR(CheckText(absl::string_view(pem.data(), pem.size())));
    }
  }
  return absl::OkStatus();
}

absl::Status PeerTrust::Check(absl::string_view pem) const {
  absl::MutexLock lock(&mutex_);
  return lists_.empty() ? absl::OkStatus() : CheckText(pem);
}

absl::Status PeerTrust::CheckText(absl::string_view pem) const {
  if (pem.empty()) return absl::OkStatus();
  auto found = known_.find(pem);
  if (found == known_.end()) {
    if (known_.size() >= kMaxKnown) known_.clear();
    found = known_.emplace(std::string(pem), IsRevoked(pem)).first;
  }
  if (!found->second) return absl::OkStatus();
  return absl::UnauthenticatedError(
      "the peer's certificate was revoked (--tls-crl); it needs a new one");
}

absl::Status PeerTrust::CheckDomain(const Peer& peer) const {
  absl::MutexLock lock(&mutex_);
  if (peer.trust_domain.empty() || trust_domain_.empty() || peer.trust_domain == trust_domain_) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat("the peer's certificate is for the trust domain '", peer.trust_domain,
                   "', but this process belongs to '", trust_domain_,
                   "'; give the peer a certificate of this fleet"));
}

bool PeerTrust::IsRevoked(absl::string_view pem) const {
  const auto certificates = ParseCertificates(std::string(pem));
  if (!certificates.ok()) return true;  // TLS has read it, so this does not happen
  for (const Certificate& certificate : *certificates) {
    for (const RevocationList& list : lists_) {
      X509_REVOKED* entry = nullptr;
      if (X509_NAME_cmp(X509_CRL_get_issuer(list.get()), X509_get_issuer_name(certificate.get())) ==
              0 &&
          X509_CRL_get0_by_cert(list.get(), &entry, certificate.get()) != 0) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace baton
