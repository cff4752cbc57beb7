// Revokes certificates of the authority in a folder (certificate_authority.h).
#pragma once

#include <openssl/x509.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

// How long a revocation list is good, if nothing else is asked for. A server does not start with an
// older one, and one that runs keeps it.
inline constexpr absl::Duration kListLifetime = absl::Hours(24 * 30);

struct RevokeOptions {
  std::string folder = "certs";
  // The certificates to revoke: a role, for all that were issued to that role and name so far; or a
  // serial number in hexadecimal; or empty, for none: this only makes the list last longer.
  std::string certificate{};
  std::string name{};  // with a role: as it was issued; empty: the role's name
  absl::Duration lifetime = kListLifetime;
};

struct RevocationReport {
  std::vector<std::string> serials;  // serial numbers added to the list, in hexadecimal
  std::string list_path;
  absl::Time good_until;
};

// Writes ca.crl anew, with those it had and the further ones, signed by the authority.
// INVALID_ARGUMENT names the flag or the file and the remedy.
absl::StatusOr<RevocationReport> RevokeCertificates(const RevokeOptions& options);

// The text of a list that revokes nothing, signed by the authority.
std::string EmptyRevocationList(const X509& authority, EVP_PKEY& key);

// Notes in the folder's issued.txt that the certificate was issued to that id.
absl::Status RecordIssued(const std::string& folder, X509& certificate, const std::string& id);

}  // namespace baton
