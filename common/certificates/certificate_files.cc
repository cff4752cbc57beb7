#include "common/certificates/certificate_files.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/access/peer.h"
#include "common/base/log.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;  // some hundred certificates, or 20,000 revoked ones

absl::Status FileError(absl::string_view flag, const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": ", what));
}

absl::StatusOr<std::string> ReadFile(absl::string_view flag, const std::string& path) {
  absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxFileBytes);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", text.status().message()));
}

// As ReadFile, for a file that must be given.
absl::StatusOr<std::string> ReadNeededFile(absl::string_view flag, const std::string& path,
                                           const TlsFlags& tls) {
  if (!path.empty()) return ReadFile(flag, path);
  return absl::InvalidArgumentError(absl::StrCat(
      flag, " is missing: give ",
      tls.for_clients_only ? "--tls-cert and --tls-key together"
                           : "--tls-cert, --tls-key and --tls-ca together, or --tls-ca alone"));
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

// A distinguished name as people write it, such as "CN = Baton example.org".
std::string NameText(const X509_NAME& name) {
  const OpenSslBuffer text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), &name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return LogSafe(absl::string_view(data, static_cast<size_t>(size)));
}

// Whether `authority` may sign lists, and has signed this one.
bool SignedBy(X509& authority, X509_CRL& list) {
  EVP_PKEY* const key = X509_get0_pubkey(&authority);
  const bool signed_by =
      X509_NAME_cmp(X509_get_subject_name(&authority), X509_CRL_get_issuer(&list)) == 0 &&
      (X509_get_key_usage(&authority) & KU_CRL_SIGN) != 0 && key != nullptr &&
      X509_CRL_verify(&list, key) == 1;
  ERR_clear_error();
  return signed_by;
}

// An error that is empty if the list is right at `now`.
std::string ListFault(X509_CRL& list, const std::vector<Certificate>& authorities, absl::Time now) {
  const std::string issuer = NameText(*X509_CRL_get_issuer(&list));
  if (std::none_of(authorities.begin(), authorities.end(),
                   [&](const Certificate& authority) { return SignedBy(*authority, list); })) {
    return absl::StrCat("the list of '", issuer,
                        "' is not signed by an authority of --tls-ca, --tls-client-ca or "
                        "--tls-cert; name the list of theirs");
  }
  // Only these parts of a list are critical: it lists changes, or only some revocations.
  if (X509_CRL_get_ext_by_critical(&list, 1, -1) >= 0) {
    return absl::StrCat("the list of '", issuer, "' is not a whole one; give the complete list");
  }
  if (ValidFrom(list) > now) {
    return absl::StrCat("the list of '", issuer, "' is not valid before ",
                        absl::FormatTime(ValidFrom(list), absl::UTCTimeZone()),
                        "; wait, or set the clock");
  }
  if (ValidUntil(list) >= now) return "";
  return absl::StrCat("the list of '", issuer, "' was good until ",
                      absl::FormatTime(ValidUntil(list), absl::UTCTimeZone()),
                      "; get a new one, as `baton certs revoke` makes it");
}

// Every certificate in the file of `flag`, after those that are in `all`.
absl::Status AddCertificates(absl::string_view flag, const std::string& path,
                             std::vector<Certificate>& all) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadFile(flag, path));
  auto certificates = ParseCertificates(text);
  if (!certificates.ok()) return FileError(flag, path, certificates.status().message());
  for (Certificate& certificate : *certificates) all.push_back(std::move(certificate));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CertificateTexts> ReadCertificateFiles(const TlsFlags& tls) {
  CertificateTexts texts;
  if (tls.own_certificate()) {
    BATON_ASSIGN_OR_RETURN(texts.chain, ReadNeededFile("--tls-cert", tls.cert_file, tls));
    BATON_ASSIGN_OR_RETURN(texts.key, ReadNeededFile("--tls-key", tls.key_file, tls));
  }
  if (tls.uses_ca()) {
    BATON_ASSIGN_OR_RETURN(texts.roots, ReadNeededFile("--tls-ca", tls.ca_file, tls));
  }
  return texts;
}

absl::StatusOr<CertificateFacts> CheckCertificates(const TlsFlags& tls,
                                                   const CertificateTexts& texts, absl::Time now) {
  CertificateFacts facts;
  std::vector<Certificate> roots;
  if (tls.uses_ca()) {
    auto parsed = ParseCertificates(texts.roots);
    if (!parsed.ok()) return FileError("--tls-ca", tls.ca_file, parsed.status().message());
    roots = *std::move(parsed);
    BATON_ASSIGN_OR_RETURN(facts.roots_end, CheckRoots("--tls-ca", tls.ca_file, roots, now));
  }
  if (!tls.own_certificate()) return facts;
  const auto chain = ParseCertificates(texts.chain);
  if (!chain.ok()) return FileError("--tls-cert", tls.cert_file, chain.status().message());
  BATON_ASSIGN_OR_RETURN(facts.chain_ends, CheckChain(tls, *chain, now));
  const std::vector<std::string> uris = UrisOf(*chain->front());
  const auto own = ParsePeer(uris.size() == 1 ? uris.front() : "");
  if (own.ok()) facts.trust_domain = own->trust_domain;
  const auto key = ParsePrivateKey(texts.key);
  if (!key.ok()) return FileError("--tls-key", tls.key_file, key.status().message());
  if (X509_check_private_key(chain->front().get(), key->get()) != 1) {
    ERR_clear_error();
    return FileError(
        "--tls-key", tls.key_file,
        absl::StrCat("is not the key of --tls-cert ", tls.cert_file, "; give the pair"));
  }
  for (const Certificate& root : roots) {
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

absl::StatusOr<std::string> ReadRevocationFile(const TlsFlags& tls) {
  if (tls.crl_file.empty()) return "";
  return ReadFile("--tls-crl", tls.crl_file);
}

absl::StatusOr<std::vector<RevocationList>> CheckRevocationLists(const TlsFlags& tls,
                                                                 const std::string& text,
                                                                 absl::Time now) {
  if (tls.crl_file.empty()) return std::vector<RevocationList>();
  auto lists = ParseRevocationLists(text);
  if (!lists.ok()) return FileError("--tls-crl", tls.crl_file, lists.status().message());
  std::vector<Certificate> authorities;
  // The chain of one's own certificate has the authorities between it and --tls-ca.
  for (const auto& [flag, path] :
       {std::pair("--tls-ca", &tls.ca_file), std::pair("--tls-cert", &tls.cert_file),
        std::pair("--tls-client-ca", &tls.client_ca_file)}) {
    if (!path->empty()) BATON_RETURN_IF_ERROR(AddCertificates(flag, *path, authorities));
  }
  for (const RevocationList& list : *lists) {
    const std::string fault = ListFault(*list, authorities, now);
    if (!fault.empty()) return FileError("--tls-crl", tls.crl_file, fault);
  }
  return *std::move(lists);
}

}  // namespace baton
