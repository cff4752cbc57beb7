#include "common/certificates/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace baton {
namespace {

OpenSslBuffer Reader(const std::string& text) {
  OpenSslBuffer reader(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  BATON_CHECK(reader != nullptr, "OpenSSL must have memory for a reader");
  return reader;
}

OpenSslBuffer Writer() {
  OpenSslBuffer writer(BIO_new(BIO_s_mem()));
  BATON_CHECK(writer != nullptr, "OpenSSL must have memory for a writer");
  return writer;
}

std::string Written(const OpenSslBuffer& writer) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(writer.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::Time ToTime(const ASN1_TIME& time) {
  std::tm fields{};
  BATON_CHECK(ASN1_TIME_to_tm(&time, &fields) == 1, "the parser lets only readable dates pass");
  return absl::FromTM(fields, absl::UTCTimeZone());
}

bool IsReadable(const ASN1_TIME* time) {
  std::tm fields{};
  return time != nullptr && ASN1_TIME_to_tm(time, &fields) == 1;
}

bool HasReadableDates(const X509& certificate) {
  return IsReadable(X509_get0_notBefore(&certificate)) &&
         IsReadable(X509_get0_notAfter(&certificate));
}

bool HasReadableDates(const X509_CRL& list) {
  return IsReadable(X509_CRL_get0_lastUpdate(&list)) && IsReadable(X509_CRL_get0_nextUpdate(&list));
}

// Everything in `pem` that `read` of OpenSSL reads. `what` and `label` name one of them for people
// and in PEM.
template <typename T, typename Read>
absl::StatusOr<std::vector<T>> ParseAll(const std::string& pem, Read read, const char* what,
                                        const char* label) {
  const OpenSslBuffer reader = Reader(pem);
  std::vector<T> result;
  while (T next{read(reader.get(), nullptr, nullptr, nullptr)}) {
    if (!HasReadableDates(*next)) {
      return absl::InvalidArgumentError(
          absl::StrCat("contains a ", what, " whose dates cannot be read; renew it"));
    }
    result.push_back(std::move(next));
  }
  // The reader ends with "no start line" where the last one has been read.
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) {
    return absl::InvalidArgumentError(absl::StrCat("contains a broken ", what, ", number ",
                                                   result.size() + 1, "; write the file anew"));
  }
  if (result.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("contains no ", what, "; a PEM file with BEGIN ", label, " is needed"));
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& pem) {
  return ParseAll<Certificate>(pem, PEM_read_bio_X509, "certificate", "CERTIFICATE");
}

absl::StatusOr<std::vector<RevocationList>> ParseRevocationLists(const std::string& pem) {
  return ParseAll<RevocationList>(pem, PEM_read_bio_X509_CRL, "revocation list", "X509 CRL");
}

absl::StatusOr<PrivateKey> ParsePrivateKey(const std::string& pem) {
  // Without a given password an encrypted key would ask for one at the terminal.
  char no_password[] = "";
  PrivateKey key(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, nullptr, no_password));
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        "contains no key; a PEM file with an unencrypted private key is needed");
  }
  return key;
}

std::vector<std::string> UrisOf(X509& certificate) {
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  std::vector<std::string> uris;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

bool HasSpiffeId(const std::vector<std::string>& uris) {
  return std::any_of(uris.begin(), uris.end(), [](const std::string& uri) {
    return absl::StartsWithIgnoreCase(uri, "spiffe:");
  });
}

std::string ToPem(X509& certificate) {
  const OpenSslBuffer writer = Writer();
  BATON_CHECK(PEM_write_bio_X509(writer.get(), &certificate) == 1,
              "OpenSSL must have memory for a certificate");
  return Written(writer);
}

std::string ToPem(X509_CRL& list) {
  const OpenSslBuffer writer = Writer();
  BATON_CHECK(PEM_write_bio_X509_CRL(writer.get(), &list) == 1,
              "OpenSSL must have memory for a revocation list");
  return Written(writer);
}

std::string ToPem(EVP_PKEY& key) {
  const OpenSslBuffer writer = Writer();
  BATON_CHECK(
      PEM_write_bio_PKCS8PrivateKey(writer.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
      "OpenSSL must have memory for a key");
  return Written(writer);
}

absl::Time ValidFrom(const X509& certificate) { return ToTime(*X509_get0_notBefore(&certificate)); }
absl::Time ValidUntil(const X509& certificate) { return ToTime(*X509_get0_notAfter(&certificate)); }
absl::Time ValidFrom(const X509_CRL& list) { return ToTime(*X509_CRL_get0_lastUpdate(&list)); }
absl::Time ValidUntil(const X509_CRL& list) { return ToTime(*X509_CRL_get0_nextUpdate(&list)); }

}  // namespace baton
