#include "common/net/credentials.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

#include "common/base/address.h"
#include "common/base/status_macros.h"
#include "common/net/pem.h"

namespace baton {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;  // a bundle of some hundred certificates

absl::StatusOr<std::string> ReadFile(absl::string_view flag, const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " is missing: mutual TLS needs --tls-cert, --tls-key and --tls-ca together"));
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  std::string contents(kMaxFileBytes, '\0');
  if (file != nullptr) contents.resize(std::fread(contents.data(), 1, contents.size(), file.get()));
  if (file == nullptr || std::ferror(file.get())) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": ", std::strerror(errno),
                                                   "; name a PEM file that can be read"));
  }
  return contents;
}

// Reads the file of `flag` and parses it. An error names both.
template <typename Parse>
auto ReadPem(absl::string_view flag, const std::string& path, const Parse& parse)
    -> decltype(parse(path)) {
  BATON_ASSIGN_OR_RETURN(const std::string pem, ReadFile(flag, path));
  auto parsed = parse(pem);
  if (parsed.ok()) return parsed;
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": ", parsed.status().message()));
}

absl::Status CheckNotExpired(absl::string_view flag, const std::string& path,
                             const std::vector<Certificate>& certificates) {
  if (ValidUntil(*certificates.front()) >= absl::Now()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", path, ": the certificate has expired; renew it"));
}

absl::Status CheckFiles(const TlsFlags& tls) {
  BATON_ASSIGN_OR_RETURN(const auto chain, ReadPem("--tls-cert", tls.cert_file, ParseCertificates));
  BATON_RETURN_IF_ERROR(CheckNotExpired("--tls-cert", tls.cert_file, chain));
  BATON_ASSIGN_OR_RETURN(const PrivateKey key, ReadPem("--tls-key", tls.key_file, ParsePrivateKey));
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("--tls-key ", tls.key_file,
                                                   ": is not the key of --tls-cert ", tls.cert_file,
                                                   "; give the pair"));
  }
  BATON_ASSIGN_OR_RETURN(const auto roots, ReadPem("--tls-ca", tls.ca_file, ParseCertificates));
  return CheckNotExpired("--tls-ca", tls.ca_file, roots);
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
