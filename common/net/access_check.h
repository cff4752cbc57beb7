// Identifies the clients of a server that has certificates, and checks each call against the access
// table (common/access/access_table.h) before it reaches its handler.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/security/auth_metadata_processor.h"
#include "grpcpp/server_context.h"

#include "common/access/audit_log.h"
#include "common/access/peer.h"
#include "common/certificates/peer_trust.h"
#include "common/net/metrics.h"

namespace baton {

// Returns the SPIFFE id in the certificate of the other side, server or client; empty without TLS,
// or if the certificate has none. Thread-safe.
std::string SpiffeIdOf(const grpc::AuthContext& context);

// Returns the caller by the certificate of its connection; nullopt without TLS. A client whose
// certificate has no SPIFFE id is named by the certificate's subject, without a trust domain.
// Thread-safe. REQUIRES: an AccessCheck has let the call pass, as on every server with
// certificates.
std::optional<Peer> PeerOf(const grpc::ServerContextBase& context);

// Refuses calls with PERMISSION_DENIED, or with UNAUTHENTICATED if the caller is unknown or its
// certificate was revoked. A certificate of another trust domain than the server's is refused
// too. Each refusal is counted, and written into the audit log. Thread-safe.
class AccessCheck final : public grpc::AuthMetadataProcessor {
 public:
  // Returns the caller, or a status with the reason why it is unknown.
  using WhoCalls =
      std::function<absl::StatusOr<Peer>(const grpc::AuthContext&, const InputMetadata&)>;
  // Returns the address of the caller, for the audit log.
  using WhereFrom = std::function<std::string(const grpc::AuthContext&, const InputMetadata&)>;

  struct CertificateOptions {
    // Whether a certificate without a SPIFFE id is a client's. The handshake has verified its
    // authority.
    bool clients_without_id = false;
    // Whether a caller without a certificate is a client, which shows an API key to the handler.
    bool clients_without_certificate = false;
  };
  // Identifies the holder of the connection's certificate.
  static WhoCalls HolderOfCertificate(const CertificateOptions& options);

  // Borrows `metrics`. If `trust` is null, revocations and trust domains are not checked. (It is
  // shared because gRPC may outlive its owner.) The functions are called on any thread. Without
  // `where_from` the audit log has no address, since gRPC gives it to handlers only.
  AccessCheck(Metrics& metrics, std::shared_ptr<const PeerTrust> trust, WhoCalls who_calls,
              WhereFrom where_from = nullptr)
      : metrics_(metrics),
        trust_(std::move(trust)),
        who_calls_(std::move(who_calls)),
        where_from_(std::move(where_from)) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* consumed_metadata,
                       OutputMetadata* response_metadata) override;

 private:
  Metrics& metrics_;
  const std::shared_ptr<const PeerTrust> trust_;
  const WhoCalls who_calls_;
  const WhereFrom where_from_;
  AuditLog audit_log_;
};

}  // namespace baton
