#include "common/net/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace baton {
namespace {

OpenSslBuffer Reader(const std::string& text) {
  OpenSslBuffer reader(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  BATON_CHECK(reader != nullptr, "no memory");
  return reader;
}

OpenSslBuffer Writer() {
  OpenSslBuffer writer(BIO_new(BIO_s_mem()));
  BATON_CHECK(writer != nullptr, "no memory");
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

}  // namespace

absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& pem) {
  const OpenSslBuffer reader = Reader(pem);
  std::vector<Certificate> result;
  while (Certificate next{PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)}) {
    std::tm fields{};
    if (ASN1_TIME_to_tm(X509_get0_notBefore(next.get()), &fields) != 1 ||
        ASN1_TIME_to_tm(X509_get0_notAfter(next.get()), &fields) != 1) {
      return absl::InvalidArgumentError("holds a certificate whose dates cannot be read; renew it");
    }
    result.push_back(std::move(next));
  }
  // The reader ends with "no start line" where the last certificate has been read.
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (result.empty()) {
    return absl::InvalidArgumentError(
        "holds no certificate; a PEM file with BEGIN CERTIFICATE is needed");
  }
  if (!at_end) {
    return absl::InvalidArgumentError(absl::StrCat("holds a broken certificate, number ",
                                                   result.size() + 1, "; write the file anew"));
  }
  return result;
}

absl::StatusOr<PrivateKey> ParsePrivateKey(const std::string& pem) {
  // Without a given password an encrypted key would ask for one at the terminal.
  char no_password[] = "";
  PrivateKey key(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, nullptr, no_password));
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        "holds no key; a PEM file with an unencrypted private key is needed");
  }
  return key;
}

std::string ToPem(X509& certificate) {
  const OpenSslBuffer writer = Writer();
  BATON_CHECK(PEM_write_bio_X509(writer.get(), &certificate) == 1, "no memory");
  return Written(writer);
}

std::string ToPem(EVP_PKEY& key) {
  const OpenSslBuffer writer = Writer();
  BATON_CHECK(
      PEM_write_bio_PKCS8PrivateKey(writer.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
      "no memory");
  return Written(writer);
}

absl::Time ValidFrom(const X509& certificate) { return ToTime(*X509_get0_notBefore(&certificate)); }
absl::Time ValidUntil(const X509& certificate) { return ToTime(*X509_get0_notAfter(&certificate)); }

}  // namespace baton
