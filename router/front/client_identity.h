// Identifies clients behind the front. The front (deploy/haproxy) ends the clients' TLS, and passes
// on each client's certificate and address in headers, which it deletes from what clients send.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/security/auth_context.h"
#include "grpcpp/support/string_ref.h"

#include "common/access/peer.h"

namespace baton {

// Its value is the DER form of the client's certificate in base64. Any client can
// send it, so only ClientBehindFront may read it.
inline constexpr char kClientCertificateHeader[] = "baton-client-certificate";

// Its value is the client's address, as the front saw it, for the audit log.
inline constexpr char kClientAddressHeader[] = "baton-client-address";

// Headers as gRPC gives them.
using CallHeaders = std::multimap<grpc::string_ref, grpc::string_ref>;

// Whether the connection is the front's: it came through FrontSocket, which
// looks at its user, or showed a certificate of the role front. Pure, as the
// following; thread-safe.
bool IsFromFront(const grpc::AuthContext& connection);

// Returns the client that calls through the front; nullopt for a client without a certificate, and
// for every call that is not the front's, even if it has such headers. UNAUTHENTICATED for a
// certificate that cannot be read or has no SPIFFE id of Baton.
absl::StatusOr<std::optional<Peer>> ClientBehindFront(const grpc::AuthContext& connection,
                                                      const CallHeaders& headers);

// The same by the values of kClientCertificateHeader. REQUIRES: the front sent them.
absl::StatusOr<std::optional<Peer>> ClientInHeaders(const std::vector<std::string>& values);

// Where who calls through the front calls from; empty for every call that is not the front's.
std::string AddressBehindFront(const grpc::AuthContext& connection, const CallHeaders& headers);

// Whether a call has a header by which a reverse proxy says that it passes the call on: Forwarded,
// X-Forwarded-For or Via. Its client may be on any machine, wherever the connection comes from.
// `has_header` returns whether the call has the header of that name, which is in lower case.
bool CameThroughProxy(absl::FunctionRef<bool(absl::string_view name)> has_header);

}  // namespace baton
