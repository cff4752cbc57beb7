#include "common/net/credentials.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

#include "common/base/address.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr unsigned kProviderSeconds = 1;  // between two looks of gRPC at its files; it has no less

}  // namespace

absl::StatusOr<Credentials> Credentials::Create(const TlsFlags& tls, absl::Duration poll) {
  Credentials result;
  result.insecure_ = tls.insecure;
  result.server_name_ = tls.server_name;
  if (!tls.enabled()) {
    if (!tls.server_name.empty()) {
      return absl::InvalidArgumentError(
          "--tls-server-name has no effect without --tls-cert, --tls-key and --tls-ca; give them "
          "or leave it out");
    }
    return result;
  }
  if (tls.insecure) {
    return absl::InvalidArgumentError(
        "--insecure contradicts --tls-cert, --tls-key and --tls-ca; give one or the other");
  }
  BATON_ASSIGN_OR_RETURN(result.watcher_, CertificateWatcher::Start(tls, poll));

  namespace tls_api = grpc::experimental;
  const auto provider = std::make_shared<tls_api::FileWatcherCertificateProvider>(
      result.watcher_->identity_path(), result.watcher_->identity_path(),
      result.watcher_->roots_path(), kProviderSeconds);
  tls_api::TlsServerCredentialsOptions server(provider);
  server.watch_root_certs();
  server.watch_identity_key_cert_pairs();
  server.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  result.server_ = tls_api::TlsServerCredentials(server);

  tls_api::TlsChannelCredentialsOptions channel;
  channel.set_certificate_provider(provider);
  channel.watch_root_certs();
  channel.watch_identity_key_cert_pairs();
  result.channel_ = tls_api::TlsCredentials(channel);
  return result;
}

Credentials Credentials::Loopback() { return Credentials(); }

absl::Status Credentials::CheckAddress(absl::string_view what, absl::string_view address) const {
  if (secure() || insecure_ || IsLoopback(address)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      what, " ", address,
      " is beyond loopback and not protected: give --tls-cert, --tls-key and --tls-ca, "
      "or --insecure for plain text"));
}

std::shared_ptr<grpc::ServerCredentials> Credentials::ForServer() const {
  return server_ != nullptr ? server_ : grpc::InsecureServerCredentials();
}

std::shared_ptr<grpc::ChannelCredentials> Credentials::ForChannel(
    grpc::ChannelArguments& arguments) const {
  if (channel_ == nullptr) return grpc::InsecureChannelCredentials();
  if (!server_name_.empty()) arguments.SetSslTargetNameOverride(server_name_);
  return channel_;
}

}  // namespace baton
