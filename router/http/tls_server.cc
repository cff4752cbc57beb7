#include "router/http/tls_server.h"

#include <openssl/err.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/access/access_table.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/certificates/certificate_check.h"
#include "common/certificates/pem.h"

namespace baton {
namespace {

// Those of TLS 1.2; all of TLS 1.3 are good.
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
// As in a ClientHello, each after its length (RFC 7301).
constexpr unsigned char kProtocols[] = "\x08http/1.1";

// Who speaks other protocols only must not be answered in this one.
int ChooseProtocol(SSL* /*session*/, const unsigned char** chosen, unsigned char* chosen_size,
                   const unsigned char* offered, unsigned int offered_size, void* /*argument*/) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, chosen_size, kProtocols, sizeof(kProtocols) - 1, offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

std::vector<Certificate> CopyOf(STACK_OF(X509) * chain) {
  std::vector<Certificate> copy;
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    X509* certificate = sk_X509_value(chain, i);
    X509_up_ref(certificate);
    copy.emplace_back(certificate);
  }
  return copy;
}

void SetBehaviour(SSL_CTX& context) {
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  SSL_CTX_set_options(&context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                    SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(&context, 0);
  // Idle connections, of which there may be thousands, hold no buffers.
  SSL_CTX_set_mode(&context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(&context, ChooseProtocol, nullptr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsServer>> TlsServer::Create(const Credentials& credentials,
                                                             bool certificate_optional) {
  auto server = std::unique_ptr<TlsServer>(new TlsServer(credentials, certificate_optional));
  absl::MutexLock lock(&server->mutex_);
  server->changes_ = credentials.changes();
  BATON_ASSIGN_OR_RETURN(server->context_, server->NewContext());
  return server;
}

absl::StatusOr<TlsServer::Context> TlsServer::NewContext() {
  Context context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return absl::ResourceExhaustedError("no memory for TLS");
  SetBehaviour(*context);
  const std::string identity = credentials_.identity_path();
  const bool taken =
      SSL_CTX_set_cipher_list(context.get(), kCiphers) == 1 &&
      SSL_CTX_use_certificate_chain_file(context.get(), identity.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(context.get(), identity.c_str(), SSL_FILETYPE_PEM) == 1 &&
      SSL_CTX_check_private_key(context.get()) == 1;
  if (!taken) {
    const unsigned long error = ERR_peek_last_error();
    ERR_clear_error();
    const char* reason = ERR_reason_error_string(error);
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-cert: OpenSSL rejects it: ", reason == nullptr ? "unknown" : reason,
                     "; issue it anew"));
  }
  if (credentials_.caller_authorities().any()) {
    SSL_CTX_set_verify(
        context.get(),
        SSL_VERIFY_PEER | (certificate_optional_ ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT), nullptr);
    SSL_CTX_set_cert_verify_callback(context.get(), Verify, this);
  }
  return context;
}

SslSession TlsServer::NewSession() {
  absl::MutexLock lock(&mutex_);
  const uint64_t changes = credentials_.changes();
  if (changes != changes_) {
    absl::StatusOr<Context> renewed = NewContext();
    if (renewed.ok()) {
      context_ = *std::move(renewed);
      changes_ = changes;
    } else if (std::exchange(not_taken_, changes) != changes) {
      LogWarning("renewed certificates are not taken for HTTP: {}",
                 std::string(renewed.status().message()));
    }
  }
  SslSession session(SSL_new(context_.get()));
  ERR_clear_error();
  return session;
}

int TlsServer::Verify(X509_STORE_CTX* shown, void* server) {
  auto& self = *static_cast<TlsServer*>(server);
  X509* certificate = X509_STORE_CTX_get0_cert(shown);
  STACK_OF(X509)* chain = X509_STORE_CTX_get0_untrusted(shown);
  const absl::StatusOr<Peer> peer =
      VerifyCaller(self.credentials_.caller_authorities(), *certificate, CopyOf(chain));
  const absl::Status status =
      peer.ok() ? self.CheckPeer(*peer, *certificate, chain) : peer.status();
  if (status.ok()) return 1;
  self.Refused(peer.value_or(Peer()), "", status);
  X509_STORE_CTX_set_error(shown, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

absl::Status TlsServer::CheckPeer(const Peer& peer, X509& certificate,
                                  STACK_OF(X509) * chain) const {
  const std::shared_ptr<const PeerTrust> trust = credentials_.trust();
  BATON_RETURN_IF_ERROR(trust->CheckDomain(peer));
  BATON_RETURN_IF_ERROR(trust->Check(ToPem(certificate)));
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    BATON_RETURN_IF_ERROR(trust->Check(ToPem(*sk_X509_value(chain, i))));
  }
  if (kWhoCallsRouters.Has(peer.role)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the role ", RoleName(peer.role),
                                                  " may not call this server, only ",
                                                  kWhoCallsRouters.Names(), " may"));
}

absl::StatusOr<std::optional<Peer>> TlsServer::Identify(SSL& session, const std::string& address) {
  X509* certificate = SSL_get0_peer_certificate(&session);
  if (certificate == nullptr) return std::nullopt;
  STACK_OF(X509)* chain = SSL_get_peer_cert_chain(&session);
  absl::StatusOr<Peer> peer = CallerOf(*certificate);
  const absl::Status status = peer.ok() ? CheckPeer(*peer, *certificate, chain) : peer.status();
  if (status.ok()) return *std::move(peer);
  Refused(peer.value_or(Peer()), address, status);
  return status;
}

void TlsServer::Refused(const Peer& peer, const std::string& address, const absl::Status& status) {
  const absl::StatusOr<std::string> id = PeerId(peer);
  audit_log_.Refused({.method = "connection",
                      .peer = id.ok() ? *id : peer.name,
                      .address = address,
                      .reason = status.message()},
                     SteadyNow());
}

}  // namespace baton
