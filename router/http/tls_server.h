// TLS of HttpServer: with the certificates that its process has at the moment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "common/access/audit_log.h"
#include "common/access/peer.h"
#include "common/certificates/credentials.h"
#include "router/http/byte_stream.h"

namespace baton {

// Thread-safe. TLS 1.2 and 1.3, without resumption: each connection shows its certificate. Outlives
// its sessions.
class TlsServer {
 public:
  // INVALID_ARGUMENT if OpenSSL does not take the certificate. Callers without a certificate are
  // let in if `certificate_optional`, and none is asked for if the credentials have no authority
  // for callers.
  static absl::StatusOr<std::unique_ptr<TlsServer>> Create(const Credentials& credentials,
                                                           bool certificate_optional);

  // For a new connection, with renewed certificates if there are some; null: no memory.
  SslSession NewSession();
  // Who the client is, whose handshake is done: nullopt without a certificate. An error if the
  // certificate was revoked, perhaps since then, or its holder has nothing to call on a router; the
  // audit log has a line for it.
  absl::StatusOr<std::optional<Peer>> Identify(SSL& session, const std::string& address);

 private:
  struct ContextFree {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  using Context = std::unique_ptr<SSL_CTX, ContextFree>;

  TlsServer(const Credentials& credentials, bool certificate_optional)
      : credentials_(credentials), certificate_optional_(certificate_optional) {}
  absl::StatusOr<Context> NewContext();
  // OpenSSL's question in a handshake: 1 if the certificate counts.
  static int Verify(X509_STORE_CTX* shown, void* server);
  absl::Status CheckPeer(const Peer& peer, X509& certificate, STACK_OF(X509) * chain) const;
  void Refused(const Peer& peer, const std::string& address, const absl::Status& status);

  const Credentials credentials_;
  const bool certificate_optional_;
  AuditLog audit_log_;
  absl::Mutex mutex_;
  Context context_ ABSL_GUARDED_BY(mutex_);
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;    // Credentials::changes() of `context_`
  uint64_t not_taken_ ABSL_GUARDED_BY(mutex_) = 0;  // the changes() that last failed to load
};

}  // namespace baton
