#include "common/net/certificate_files.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/net/pem.h"

namespace baton {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;  // a bundle of some hundred certificates

absl::Status FileError(absl::string_view flag, const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": ", what));
}

absl::StatusOr<std::string> ReadFile(absl::string_view flag, const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " is missing: give --tls-cert, --tls-key and --tls-ca together, or --tls-ca alone"));
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  std::string contents;
  char part[4096];
  for (size_t size = 1; file != nullptr && size > 0 && contents.size() < kMaxFileBytes;) {
    size = std::fread(part, 1, sizeof(part), file.get());
    contents.append(part, size);
  }
  if (file == nullptr || std::ferror(file.get())) {
    return FileError(flag, path,
                     absl::StrCat(std::strerror(errno), "; name a PEM file that can be read"));
  }
  return contents;
}

// An error that is empty if the certificate is valid at `now`.
std::string DateFault(const X509& certificate, absl::Time now) {
  if (ValidUntil(certificate) < now) return "the certificate has expired; renew it";
  if (ValidFrom(certificate) <= now) return "";
  return absl::StrCat("the certificate is not valid before ",
                      absl::FormatTime(ValidFrom(certificate), absl::UTCTimeZone()),
                      "; wait, or set the clock");
}

// Whether `issuer` has issued and signed `certificate`.
bool Issued(X509& issuer, X509& certificate) {
  EVP_PKEY* const key = X509_get0_pubkey(&issuer);
  const bool issued = X509_check_issued(&issuer, &certificate) == X509_V_OK && key != nullptr &&
                      X509_verify(&certificate, key) == 1;
  ERR_clear_error();
  return issued;
}

absl::StatusOr<absl::Time> CheckChain(const TlsFlags& tls, const std::vector<Certificate>& chain,
                                      absl::Time now) {
  absl::Time ends = absl::InfiniteFuture();
  for (size_t i = 0; i < chain.size(); ++i) {
    if (const std::string fault = DateFault(*chain[i], now); !fault.empty()) {
      return FileError("--tls-cert", tls.cert_file, fault);
    }
    if (i > 0 && !Issued(*chain[i], *chain[i - 1])) {
      return FileError("--tls-cert", tls.cert_file,
                       absl::StrCat("certificate ", i + 1, " has not issued certificate ", i,
                                    "; write this process's own first, then its issuers"));
    }
    ends = std::min(ends, ValidUntil(*chain[i]));
  }
  return ends;
}

absl::StatusOr<absl::Time> CheckRoots(absl::string_view flag, const std::string& path,
                                      const std::vector<Certificate>& roots, absl::Time now) {
  absl::Time end = absl::InfinitePast();
  for (const Certificate& root : roots) {
    if (DateFault(*root, now).empty()) end = std::max(end, ValidUntil(*root));
  }
  if (end != absl::InfinitePast()) return end;
  return FileError(flag, path, DateFault(*roots.front(), now));
}

}  // namespace

absl::StatusOr<CertificateTexts> ReadCertificateFiles(const TlsFlags& tls) {
  CertificateTexts texts;
  if (tls.own_certificate()) {
    BATON_ASSIGN_OR_RETURN(texts.chain, ReadFile("--tls-cert", tls.cert_file));
    BATON_ASSIGN_OR_RETURN(texts.key, ReadFile("--tls-key", tls.key_file));
  }
  BATON_ASSIGN_OR_RETURN(texts.roots, ReadFile("--tls-ca", tls.ca_file));
  return texts;
}

absl::StatusOr<CertificateFacts> CheckCertificates(const TlsFlags& tls,
                                                   const CertificateTexts& texts, absl::Time now) {
  CertificateFacts facts;
  const auto roots = ParseCertificates(texts.roots);
  if (!roots.ok()) return FileError("--tls-ca", tls.ca_file, roots.status().message());
  BATON_ASSIGN_OR_RETURN(facts.roots_end, CheckRoots("--tls-ca", tls.ca_file, *roots, now));
  if (!tls.own_certificate()) return facts;
  const auto chain = ParseCertificates(texts.chain);
  if (!chain.ok()) return FileError("--tls-cert", tls.cert_file, chain.status().message());
  BATON_ASSIGN_OR_RETURN(facts.chain_ends, CheckChain(tls, *chain, now));
  const auto key = ParsePrivateKey(texts.key);
  if (!key.ok()) return FileError("--tls-key", tls.key_file, key.status().message());
  if (X509_check_private_key(chain->front().get(), key->get()) != 1) {
    ERR_clear_error();
    return FileError(
        "--tls-key", tls.key_file,
        absl::StrCat("is not the key of --tls-cert ", tls.cert_file, "; give the pair"));
  }
  for (const Certificate& root : *roots) {
    facts.signed_by_root |=
        X509_cmp(root.get(), chain->back().get()) == 0 || Issued(*root, *chain->back());
  }
  return facts;
}

absl::Status CheckAuthorities(absl::string_view flag, const std::string& path, absl::Time now) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadFile(flag, path));
  const auto roots = ParseCertificates(text);
  if (!roots.ok()) return FileError(flag, path, roots.status().message());
  return CheckRoots(flag, path, *roots, now).status();
}

}  // namespace baton
