#include "router/front/client_identity.h"

#include <openssl/err.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "grpc/grpc_security_constants.h"

#include "common/certificates/pem.h"

namespace baton {
namespace {

constexpr absl::string_view kProxyHeaders[] = {"forwarded", "x-forwarded-for", "via"};
constexpr char kLocal[] = "local";  // the transport security of FrontSocket's connections alone

absl::Status Unreadable(absl::string_view what) {
  return absl::UnauthenticatedError(
      absl::StrCat("the client's certificate, as the front passed it "
                   "on, ",
                   what));
}

// The SPIFFE id, which is the certificate's only URI.
absl::StatusOr<std::string> SpiffeId(X509& certificate) {
  const std::vector<std::string> uris = UrisOf(certificate);
  if (uris.size() == 1) return uris.front();
  if (!uris.empty()) return Unreadable("has more than one URI; issue it anew with one");
  return Unreadable(
      "has no SPIFFE id; `baton certs issue` makes "
      "certificates that have one");
}

absl::StatusOr<Peer> PeerInHeader(absl::string_view header) {
  std::string der;
  if (!absl::Base64Unescape(header, &der)) return Unreadable("is not base64");
  const auto* data = reinterpret_cast<const unsigned char*>(der.data());
  const unsigned char* end = data;
  const Certificate certificate(d2i_X509(nullptr, &end, static_cast<long>(der.size())));
  ERR_clear_error();
  if (certificate == nullptr || end != data + der.size()) return Unreadable("is not in DER");
  const absl::StatusOr<std::string> id = SpiffeId(*certificate);
  if (!id.ok()) return id.status();
  absl::StatusOr<Peer> peer = ParsePeer(*id);
  if (!peer.ok()) return Unreadable(absl::StrCat("has another id: ", peer.status().message()));
  return peer;
}

}  // namespace

bool IsFromFront(const grpc::AuthContext& connection) {
  for (const grpc::string_ref& kind :
       connection.FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME)) {
    if (kind == kLocal) return true;
  }
  const auto ids = connection.FindPropertyValues(GRPC_PEER_SPIFFE_ID_PROPERTY_NAME);
  if (ids.size() != 1) return false;
  const absl::StatusOr<Peer> peer =
      ParsePeer(absl::string_view(ids.front().data(), ids.front().size()));
  return peer.ok() && peer->role == Role::kFront;
}

absl::StatusOr<std::optional<Peer>> ClientBehindFront(const grpc::AuthContext& connection,
                                                      const CallHeaders& headers) {
  if (!IsFromFront(connection)) return std::nullopt;
  std::vector<std::string> values;
  const auto [first, last] = headers.equal_range(kClientCertificateHeader);
  for (auto header = first; header != last; ++header) {
    values.emplace_back(header->second.data(), header->second.size());
  }
  return ClientInHeaders(values);
}

absl::StatusOr<std::optional<Peer>> ClientInHeaders(const std::vector<std::string>& values) {
  if (values.empty()) return std::nullopt;
  if (values.size() > 1) return Unreadable("came twice");
  absl::StatusOr<Peer> peer = PeerInHeader(values.front());
  if (!peer.ok()) return peer.status();
  return *std::move(peer);
}

std::string AddressBehindFront(const grpc::AuthContext& connection, const CallHeaders& headers) {
  const auto found = headers.find(kClientAddressHeader);
  if (found == headers.end() || !IsFromFront(connection)) return "";
  return std::string(found->second.data(), found->second.size());
}

bool CameThroughProxy(absl::FunctionRef<bool(absl::string_view name)> has_header) {
  return std::any_of(std::begin(kProxyHeaders), std::end(kProxyHeaders), has_header);
}

}  // namespace baton
