#include "common/net/access_check.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpc/grpc_security_constants.h"

#include "common/access/access_table.h"
#include "common/base/clock.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

std::string FirstValue(const grpc::AuthContext& context, const char* property) {
  const std::vector<grpc::string_ref> values = context.FindPropertyValues(property);
  return values.empty() ? "" : std::string(values.front().data(), values.front().size());
}

// What the certificate says of its holder: the SPIFFE id, or else the subject, or else a name.
std::string CertificateName(const grpc::AuthContext& context) {
  for (const char* property : {GRPC_PEER_SPIFFE_ID_PROPERTY_NAME, GRPC_X509_SUBJECT_PROPERTY_NAME,
                               GRPC_X509_SAN_PROPERTY_NAME}) {
    std::string name = FirstValue(context, property);
    if (!name.empty()) return name;
  }
  return "";
}

absl::StatusOr<Peer> PeerFromCertificate(const grpc::AuthContext& context) {
  const std::string id = SpiffeIdOf(context);
  if (!id.empty()) return ParsePeer(id);
  std::string name = CertificateName(context);
  if (name.empty()) {
    return absl::NotFoundError("the caller presented no certificate, or one without a name");
  }
  return Peer{.role = Role::kClient, .trust_domain = "", .name = std::move(name)};
}

}  // namespace

std::string SpiffeIdOf(const grpc::AuthContext& context) {
  return FirstValue(context, GRPC_PEER_SPIFFE_ID_PROPERTY_NAME);
}

std::optional<Peer> PeerOf(const grpc::ServerContextBase& context) {
  absl::StatusOr<Peer> peer = PeerFromCertificate(*context.auth_context());
  if (!peer.ok()) return std::nullopt;
  return *std::move(peer);
}

AccessCheck::WhoCalls AccessCheck::HolderOfCertificate(const CertificateOptions& options) {
  return [options](const grpc::AuthContext& context,
                   const InputMetadata& /*headers*/) -> absl::StatusOr<Peer> {
    absl::StatusOr<Peer> peer = PeerFromCertificate(context);
    if (absl::IsNotFound(peer.status()) && options.clients_without_certificate) return Peer();
    if (!peer.ok()) return absl::UnauthenticatedError(peer.status().message());
    if (peer->trust_domain.empty() && !options.clients_without_id) {
      return absl::UnauthenticatedError(
          "the certificate has no SPIFFE id, so it has no role here; use one with the single URI "
          "spiffe://<trust domain>/baton/<role>/<name>");
    }
    return peer;
  };
}

grpc::Status AccessCheck::Process(const InputMetadata& metadata, grpc::AuthContext* context,
                                  OutputMetadata* /*consumed_metadata*/,
                                  OutputMetadata* /*response_metadata*/) {
  const auto path = metadata.find(":path");
  const std::string method =
      path == metadata.end() ? "" : std::string(path->second.data(), path->second.size());
  // A method that does not exist is not a label: callers could make any number of them.
  const bool known = FindAccessRule(method) != nullptr;
  const absl::StatusOr<Peer> peer = who_calls_(*context, metadata);
  absl::Status status = peer.status();
  const char* reason = "no_identity";
  if (status.ok() && trust_ != nullptr) {
    reason = "revoked";
    status = trust_->Check(*context);
  }
  if (status.ok() && trust_ != nullptr) {
    reason = "trust_domain";
    status = trust_->CheckDomain(*peer);
  }
  if (status.ok()) {
    reason = known ? "role" : "unknown_method";
    status = CheckAccess(*peer, method);
  }
  if (status.ok()) return grpc::Status::OK;

  metrics_
      .AddCounter("baton_refused_calls_total",
                  "Calls that were refused before their handler, since the caller may not make "
                  "them.",
                  {{"method", known ? method : "unknown"},
                   {"caller", peer.ok() ? RoleName(peer->role) : "unknown"},
                   {"reason", reason}})
      .Add();
  const std::string name =
      peer.ok() ? PeerId(*peer).value_or(peer->name) : CertificateName(*context);
  const std::string address = where_from_ ? where_from_(*context, metadata) : "";
  audit_log_.Refused({.method = method, .peer = name, .address = address, .reason = reason},
                     SteadyNow());
  return ToGrpcStatus(status);
}

}  // namespace baton
