#include "client/certs/authority_folder.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/base/small_file.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr size_t kMaxAuthorityBytes = 1 << 20;

absl::StatusOr<std::string> ReadAuthorityFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxAuthorityBytes);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(absl::StrCat(
      text.status().message(),
      "; make an authority with `baton certs init`, or give the authority's folder by --folder"));
}

// The trust domain of an authority is its one URI, spiffe://<trust domain>.
absl::StatusOr<std::string> TrustDomain(X509& certificate) {
  for (const std::string& uri : UrisOf(certificate)) {
    absl::string_view text = uri;
    if (absl::ConsumePrefix(&text, "spiffe://")) return std::string(text);
  }
  return absl::InvalidArgumentError(
      "contains no trust domain; create an authority with `baton certs init`");
}

}  // namespace

absl::Status OfFile(const std::string& path, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<Authority> ReadAuthority(const std::string& folder) {
  const std::string certificate_path = PathIn(folder, "ca.crt");
  const std::string key_path = PathIn(folder, "ca.key");
  BATON_ASSIGN_OR_RETURN(const std::string certificate_pem, ReadAuthorityFile(certificate_path));
  BATON_ASSIGN_OR_RETURN(const std::string key_pem, ReadAuthorityFile(key_path));
  auto certificates = ParseCertificates(certificate_pem);
  if (!certificates.ok()) return OfFile(certificate_path, certificates.status());
  auto key = ParsePrivateKey(key_pem);
  if (!key.ok()) return OfFile(key_path, key.status());
  Authority authority{.certificate = std::move(certificates->front()), .key = *std::move(key)};
  if (X509_check_private_key(authority.certificate.get(), authority.key.get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(key_path, ": is not the key of ",
                                                   certificate_path,
                                                   "; restore the matching pair from a backup"));
  }
  auto trust_domain = TrustDomain(*authority.certificate);
  if (!trust_domain.ok()) return OfFile(certificate_path, trust_domain.status());
  authority.trust_domain = *std::move(trust_domain);
  return authority;
}

}  // namespace baton
