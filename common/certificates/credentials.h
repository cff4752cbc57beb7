// The credentials of a process: TLS with certificates from files, or plain text.
//
// With certificates, both sides of every connection show one signed by --tls-ca and check the
// other's; renewed files that belong together are taken without a restart. What a peer may do
// follows from the role in its certificate (common/access/peer.h). A client that shows an API key
// needs --tls-ca alone. A router whose workers are on its machine may have a certificate for its
// clients alone, which needs no role (TlsFlags::for_clients_only). Without certificates only
// loopback may be used, unless --insecure allows more, and there are no roles.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/support/channel_arguments.h"

#include "common/access/role_set.h"
#include "common/certificates/certificate_check.h"
#include "common/certificates/certificate_watcher.h"
#include "common/certificates/tls_flags.h"

namespace grpc::experimental {
class CertificateProviderInterface;
}

namespace baton {

// Between two looks for renewed files.
inline constexpr absl::Duration kCertificatesPoll = absl::Milliseconds(250);

// Immutable and thread-safe. (gRPC's own interface has shared pointers.)
class Credentials {
 public:
  // Reads and checks the files, and then looks for renewed files every `poll`. New connections have
  // renewed certificates two looks and at most 1 s after the change. INVALID_ARGUMENT names the
  // flag, the file and the remedy.
  // `callers`: the only roles that may connect to a server with these credentials; none: all.
  static absl::StatusOr<Credentials> Create(const TlsFlags& tls,
                                            absl::Duration poll = kCertificatesPoll,
                                            std::optional<RoleSet> callers = std::nullopt);
  // Allows plain text on loopback only, as Create does without any flag.
  static Credentials Loopback();

  bool secure() const { return provider_ != nullptr; }
  // What became of the certificate files. REQUIRES: secure().
  CertificateWatcher::State certificates() const { return watcher_->state(); }
  // What counts beside the certificates; null without any.
  std::shared_ptr<const PeerTrust> trust() const { return secure() ? watcher_->trust() : nullptr; }
  // Counts the changes of certificates and revocation lists. A connection that was made before the
  // last one may have been made by what no longer counts.
  uint64_t changes() const { return secure() ? watcher_->state().reloads : 0; }
  // UNAUTHENTICATED if the peer's certificate was revoked, perhaps after its connection was made.
  absl::Status CheckPeer(const grpc::AuthContext& peer) const;

  // PERMISSION_DENIED if `address` is not loopback and there are neither certificates nor
  // --insecure. `what` names the flag or the peer in the error.
  absl::Status CheckAddress(absl::string_view what, absl::string_view address) const;

  // REQUIRES: there is a certificate of this process's own, or none at all.
  std::shared_ptr<grpc::ServerCredentials> ForServer() const;
  // For a server that does its handshakes without gRPC, the path of the key with the certificate
  // chain, and the authorities that certify callers. Their contents are new after each of
  // changes(). REQUIRES: secure(), and a certificate of this process's own.
  std::string identity_path() const { return watcher_->identity_path(); }
  CallerAuthorities caller_authorities() const {
    return {.ca_file = watcher_->roots_path(), .client_ca_file = client_ca_file_};
  }
  // For a channel to a server that has one of `roles`. Also sets in `arguments` what the handshake
  // needs.
  std::shared_ptr<grpc::ChannelCredentials> ForChannel(RoleSet roles,
                                                       grpc::ChannelArguments& arguments) const;

 private:
  Credentials() = default;

  bool insecure_ = false;
  bool for_clients_only_ = false;
  std::string server_name_;
  std::string client_ca_file_;
  // Null: plain text.
  std::shared_ptr<CertificateWatcher> watcher_;  // shared by copies
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider_;
  std::shared_ptr<grpc::ServerCredentials> server_;
};

}  // namespace baton
