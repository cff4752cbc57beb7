// Refuses peers with correctly signed certificates that were revoked or are of another trust
// domain.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/security/auth_context.h"

#include "common/access/peer.h"
#include "common/certificates/pem.h"

namespace baton {

// Thread-safe. CertificateWatcher says what counts now; the checks of connections and calls ask.
class PeerTrust {
 public:
  // From now on peers of another trust domain are refused; empty: of none.
  void SetTrustDomain(const std::string& trust_domain);
  // From now on the certificates that one of `lists` names are refused, and no others.
  void SetRevoked(std::vector<RevocationList> lists);

  // UNAUTHENTICATED if a certificate of the peer was revoked. Cheap enough for every call.
  absl::Status Check(const grpc::AuthContext& peer) const;
  // The same for the certificates in `pem`.
  absl::Status Check(absl::string_view pem) const;
  // PERMISSION_DENIED if the peer's id is of another trust domain.
  absl::Status CheckDomain(const Peer& peer) const;

 private:
  // The most texts whose answer is remembered.
  static constexpr size_t kMaxKnown = 4096;

  absl::Status CheckText(absl::string_view pem) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsRevoked(absl::string_view pem) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::string trust_domain_ ABSL_GUARDED_BY(mutex_);
  std::vector<RevocationList> lists_ ABSL_GUARDED_BY(mutex_);
  // Whether `lists_` revoke the certificates of a text: a connection shows the same at each call.
  mutable std::map<std::string, bool, std::less<>> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
