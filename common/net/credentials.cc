#include "common/net/credentials.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

#include "common/base/address.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

using File = std::unique_ptr<FILE, int (*)(FILE*)>;
using Certificate = std::unique_ptr<X509, void (*)(X509*)>;

absl::StatusOr<File> OpenFile(absl::string_view flag, const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " is missing: mutual TLS needs --tls-cert, --tls-key and --tls-ca together"));
  }
  File file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": ", std::strerror(errno),
                                                   "; name a PEM file that can be read"));
  }
  return file;
}

absl::StatusOr<Certificate> ReadCertificate(absl::string_view flag, const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const File file, OpenFile(flag, path));
  Certificate certificate(PEM_read_X509(file.get(), nullptr, nullptr, nullptr), X509_free);
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " ", path, ": holds no certificate; a PEM file with BEGIN CERTIFICATE is needed"));
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", path, ": the certificate has expired; renew it"));
  }
  return certificate;
}

absl::Status CheckFiles(const TlsFlags& tls) {
  BATON_ASSIGN_OR_RETURN(const Certificate certificate,
                         ReadCertificate("--tls-cert", tls.cert_file));
  BATON_ASSIGN_OR_RETURN(const File key_file, OpenFile("--tls-key", tls.key_file));
  // Without a given password an encrypted key would ask for one at the terminal.
  char no_password[] = "";
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      PEM_read_PrivateKey(key_file.get(), nullptr, nullptr, no_password), EVP_PKEY_free);
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-key ", tls.key_file,
                     ": holds no key; a PEM file with an unencrypted private key is needed"));
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("--tls-key ", tls.key_file,
                                                   ": is not the key of --tls-cert ", tls.cert_file,
                                                   "; give the pair"));
  }
  return ReadCertificate("--tls-ca", tls.ca_file).status();
}

}  // namespace

absl::StatusOr<Credentials> Credentials::Create(const TlsFlags& tls, absl::Duration reload) {
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
  BATON_RETURN_IF_ERROR(CheckFiles(tls));

  namespace tls_api = grpc::experimental;
  const auto provider = std::make_shared<tls_api::FileWatcherCertificateProvider>(
      tls.key_file, tls.cert_file, tls.ca_file,
      static_cast<unsigned>(absl::ToInt64Seconds(std::max(reload, absl::Seconds(1)))));
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
