#include "common/certificates/credentials.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

#include "common/base/address.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/certificates/certificate_check.h"
#include "common/certificates/certificate_files.h"

namespace baton {

namespace tls_api = grpc::experimental;

namespace {

constexpr unsigned kProviderSeconds = 1;  // between two looks of gRPC at its files; it has no less

// The flags that a server needs for TLS.
const char* NeededFlags(bool for_clients_only) {
  return for_clients_only ? "--tls-cert and --tls-key" : "--tls-cert, --tls-key and --tls-ca";
}

// Checks the flags that only mean something beside others. INVALID_ARGUMENT names the flag.
absl::Status CheckFlags(const TlsFlags& tls) {
  if (tls.enabled() && tls.insecure) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--insecure contradicts ", NeededFlags(tls.for_clients_only), "; give one or the other"));
  }
  if (tls.for_clients_only && !tls.server_name.empty()) {
    return absl::InvalidArgumentError(
        "--tls-server-name has no effect: the workers are called without TLS; leave it out");
  }
  if (tls.enabled()) return absl::OkStatus();
  for (const auto& [flag, value] :
       {std::pair("--tls-client-ca", &tls.client_ca_file), std::pair("--tls-crl", &tls.crl_file),
        std::pair("--tls-server-name", &tls.server_name)}) {
    if (value->empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(flag, " has no effect without ",
                                                   NeededFlags(tls.for_clients_only),
                                                   "; add them, or leave out ", flag));
  }
  return absl::OkStatus();
}

// Sets which certificates of callers the server asks for and takes.
void SetCallers(const TlsFlags& tls, std::optional<RoleSet> callers,
                tls_api::TlsServerCredentialsOptions& server) {
  if (callers.has_value()) {  // among whom are no clients, so their authority does not count
    server.watch_root_certs();
    server.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    server.set_certificate_verifier(CallerRoleCheck(*callers));
  } else if (!tls.has_authority()) {
    server.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else if (tls.client_ca_file.empty()) {
    server.watch_root_certs();
    server.set_cert_request_type(tls.certificate_optional
                                     ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                                     : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  } else {
    // The check verifies the certificate, against the one authority or the other.
    server.set_cert_request_type(
        tls.certificate_optional ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY
                                 : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
    server.set_certificate_verifier(
        CallerAuthorityCheck(tls.ca_file, tls.client_ca_file, tls.certificate_optional));
  }
}

}  // namespace

absl::StatusOr<Credentials> Credentials::Create(const TlsFlags& tls, absl::Duration poll,
                                                std::optional<RoleSet> callers) {
  Credentials result;
  result.insecure_ = tls.insecure;
  result.for_clients_only_ = tls.for_clients_only;
  result.server_name_ = tls.server_name;
  result.client_ca_file_ = tls.client_ca_file;
  BATON_RETURN_IF_ERROR(CheckFlags(tls));
  if (!tls.enabled()) return result;
  BATON_ASSIGN_OR_RETURN(result.watcher_, CertificateWatcher::Start(tls, poll));
  if (!tls.client_ca_file.empty()) {
    BATON_RETURN_IF_ERROR(CheckAuthorities("--tls-client-ca", tls.client_ca_file, absl::Now()));
  }

  result.provider_ = std::make_shared<tls_api::FileWatcherCertificateProvider>(
      result.watcher_->identity_path(), result.watcher_->identity_path(),
      result.watcher_->roots_path(), kProviderSeconds);
  if (!tls.own_certificate()) return result;
  tls_api::TlsServerCredentialsOptions server(result.provider_);
  server.watch_identity_key_cert_pairs();
  SetCallers(tls, callers, server);
  result.server_ = tls_api::TlsServerCredentials(server);
  return result;
}

absl::Status Credentials::CheckPeer(const grpc::AuthContext& peer) const {
  return secure() ? watcher_->trust()->Check(peer) : absl::OkStatus();
}

Credentials Credentials::Loopback() { return Credentials(); }

absl::Status Credentials::CheckAddress(absl::string_view what, absl::string_view address) const {
  if (secure() || insecure_ || IsLoopback(address)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(what, " ", address, " is beyond loopback and needs protection: give ",
                   NeededFlags(for_clients_only_), ", or --insecure for plain text"));
}

std::shared_ptr<grpc::ServerCredentials> Credentials::ForServer() const {
  if (!secure()) return grpc::InsecureServerCredentials();
  BATON_CHECK(server_ != nullptr, "a server without a certificate of its own");
  return server_;
}

std::shared_ptr<grpc::ChannelCredentials> Credentials::ForChannel(
    RoleSet roles, grpc::ChannelArguments& arguments) const {
  if (!secure()) return grpc::InsecureChannelCredentials();
  if (!server_name_.empty()) arguments.SetSslTargetNameOverride(server_name_);
  tls_api::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider_);
  options.watch_root_certs();
  if (!watcher_->identity_path().empty()) options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(ServerRoleCheck(roles, watcher_->trust()));
  return tls_api::TlsCredentials(options);
}

}  // namespace baton
