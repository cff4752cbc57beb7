// A private certificate authority in a folder, which gives the parts of a fleet their certificates.
//
//   ca.crt, ca.key    the authority, for one trust domain
//   ca.crl            the certificates that it has revoked (certificate_revocation.h)
//   issued.txt        the certificates that it has issued
//   fleet-secret      32 random bytes in hexadecimal, the same for all parts of the fleet
//   ROLE[-NAME].crt, ROLE[-NAME].key    a certificate and its key
//
// Keys and the secret are readable by their owner only. Keys are ECDSA P-256.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/access/peer.h"

namespace baton {

struct AuthorityOptions {
  std::string folder = "certs";
  std::string trust_domain = "baton.internal";
  absl::Duration lifetime = absl::Hours(24 * 3650);
  bool force = false;  // whether files that are there are replaced
};

// Makes the authority's certificate, key and empty revocation list, and the fleet's secret.
// INVALID_ARGUMENT names the flag or the file and the remedy, here and below.
absl::Status InitAuthority(const AuthorityOptions& options);

struct IssueOptions {
  std::string folder = "certs";
  Role role = Role::kClient;
  std::string name{};  // the last part of the SPIFFE id; empty: the role's name
  // The names and IP addresses at which clients reach the server. If both are empty, a server's
  // are those of loopback.
  std::vector<std::string> dns_names{};
  std::vector<std::string> ip_addresses{};
  absl::Duration lifetime = absl::Hours(24 * 90);
  bool force = false;
};

struct IssuedCertificate {
  std::string id;  // its SPIFFE id
  std::string certificate_path;
  std::string key_path;
};

// Makes a key and a certificate for it, signed by the authority in the folder. It serves for calls;
// except a client's and an operator's, it serves for answering calls too.
absl::StatusOr<IssuedCertificate> IssueCertificate(const IssueOptions& options);

}  // namespace baton
