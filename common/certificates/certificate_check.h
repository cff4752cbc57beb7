// Checks of the other side's certificate in a TLS handshake, beyond gRPC's own checks.
// (gRPC's own interface has shared pointers.) The verifiers are thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/security/tls_certificate_verifier.h"

#include "common/access/role_set.h"
#include "common/certificates/peer_trust.h"
#include "common/certificates/pem.h"

namespace baton {

// For a channel: the server's certificate is good for the address that is called, and its SPIFFE
// id names one of `roles` and one's own trust domain, and `trust` has nothing against it. If
// `roles` has the router, the channel is a client's: a certificate without a SPIFFE id then only
// needs to be good for the address, as for any HTTPS client. gRPC verifies by whom it is signed.
std::shared_ptr<grpc::experimental::CertificateVerifier> ServerRoleCheck(
    RoleSet roles, std::shared_ptr<const PeerTrust> trust);

// For a server that only Baton's own parts call: the caller's SPIFFE id names one of `callers`. Who
// has nothing to call there sends no byte of HTTP/2, against whose floods gRPC has no remedy. gRPC
// verifies by whom the certificate is signed. The audit log has a line for each who is refused.
std::shared_ptr<grpc::experimental::CertificateVerifier> CallerRoleCheck(RoleSet callers);

// Paths of the authorities that certify a server's callers; empty: there is none.
struct CallerAuthorities {
  std::string ca_file;         // value of --tls-ca
  std::string client_ca_file;  // value of --tls-client-ca

  // Whether callers may show a certificate.
  bool any() const { return !ca_file.empty() || !client_ca_file.empty(); }
};

// Who the holder of a certificate is by its SPIFFE id; one without is a client, whom the subject
// names, as PeerOf says. UNAUTHENTICATED if the id is none of Baton's. Pure; thread-safe. REQUIRES:
// the certificate was verified as by VerifyCaller.
absl::StatusOr<Peer> CallerOf(X509& certificate);

// For a server that does its handshakes without gRPC: who the caller with that certificate is.
// `chain` has the others that it showed. The certificate is verified; one that --tls-ca has signed
// needs a SPIFFE id, with any role; one that --tls-client-ca has signed can only be a client's, and
// needs none. Pure but for the files; thread-safe.
absl::StatusOr<Peer> VerifyCaller(const CallerAuthorities& authorities, X509& certificate,
                                  const std::vector<Certificate>& chain);

// For a server whose callers may have certificates of either of two authorities. It verifies all
// of the certificate, as VerifyCaller does, since gRPC knows only one set of authorities. A caller
// without any is let in if `optional`. `ca_file` may be empty: there is one authority. The files are
// read at each handshake, so that renewed ones count at once.
std::shared_ptr<grpc::experimental::CertificateVerifier> CallerAuthorityCheck(
    const std::string& ca_file, const std::string& client_ca_file, bool optional);

}  // namespace baton
