// Checks whether the TLS files work for the programs that use them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "client/doctor/finding.h"
#include "common/access/role_set.h"
#include "common/certificates/tls_flags.h"

namespace baton {

// The least time before a certificate's end at which it must have been renewed: a quarter of its
// life, for those that are made every day, and a week at most.
absl::Duration RenewalMargin(absl::Duration lifetime);

struct Validity {
  absl::Time from, until;
};

// Facts of the files of one process. Each is there if the one before it is right.
struct CertificateUse {
  std::string user{};  // source of the flags: a file, or "baton doctor"
  RoleSet roles;       // roles that the certificate may have
  TlsFlags tls{};
  // The first thing that is wrong with the files: unreadable, no PEM, the key of another
  // certificate, the wrong order, no authority that is valid.
  absl::Status files{};
  std::optional<mode_t> key_mode{};  // the mode of the key's file, 0 to 0777
  std::string role_fault{};          // why its SPIFFE id is not right; empty: it is
  std::string id{};                  // its SPIFFE id
  // The life of the chain's certificate that ends first; none without a chain.
  std::optional<Validity> certificate{};
  std::optional<Validity> authorities{};  // the life of the authority that ends last
  bool signed_by_authority = false;       // whether --tls-ca verifies the chain
  absl::Status lists{};                   // what is wrong with the revocation lists
  // The life of the revocation list that is outdated first; none without --tls-crl.
  std::optional<Validity> list{};
  bool revoked = false;  // whether they name this very certificate
};

// Reads the files. `now` is the moment at which all must be valid.
CertificateUse GatherCertificateUse(const std::string& user, RoleSet roles, const TlsFlags& tls,
                                    absl::Time now);

// certificate.files, .key_mode, .role, .chain, .expiry and .revocation; where no TLS is used one
// certificate.files that is skipped. Pure.
Findings CertificateFindings(const CertificateUse& use, absl::Time now);

}  // namespace baton
