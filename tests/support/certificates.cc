#include "tests/support/certificates.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/random.h"

namespace baton {
namespace {

struct Delete {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509_CRL* list) const { X509_CRL_free(list); }
  void operator()(ASN1_STRING* value) const { ASN1_STRING_free(value); }  // numbers and times too
};
using Key = std::unique_ptr<EVP_PKEY, Delete>;
using Certificate = std::unique_ptr<X509, Delete>;
using Text = std::unique_ptr<BIO, Delete>;

std::string Content(const Text& text) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string PemOf(X509* certificate) {
  const Text text(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(text.get(), certificate);
  return Content(text);
}

std::string PemOf(EVP_PKEY* key) {
  const Text text(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(text.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return Content(text);
}

Certificate NewCertificate(const std::string& name, absl::Time from, absl::Time until,
                           EVP_PKEY* key) {
  Certificate certificate(X509_new());
  X509_set_version(certificate.get(), 2);  // version 3
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), RandomUint64());
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(from));
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(until));
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(certificate.get(), key);
  return certificate;
}

void AddExtension(X509* certificate, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, nullptr, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Delete> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  BATON_CHECK(extension != nullptr, value.c_str());
  X509_add_ext(certificate, extension.get(), -1);
}

}  // namespace

struct TestAuthority::Rep {
  Key key;
  Certificate certificate;
};

TestAuthority::TestAuthority(const std::string& name) : rep_(std::make_unique<Rep>()) {
  rep_->key.reset(EVP_EC_gen("P-256"));
  rep_->certificate = NewCertificate(name, absl::Now() - absl::Hours(2),
                                     absl::Now() + absl::Hours(2), rep_->key.get());
  X509* certificate = rep_->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  AddExtension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  X509_sign(certificate, rep_->key.get(), EVP_sha256());
  pem_ = PemOf(certificate);
}
TestAuthority::~TestAuthority() = default;

TestCertificate TestAuthority::Issue(const Holder& holder) const {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate =
      NewCertificate(holder.common_name, holder.from, holder.until, key.get());
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(rep_->certificate.get()));
  AddExtension(certificate.get(), NID_subject_alt_name,
               absl::StrCat("IP:127.0.0.1", holder.names.empty() ? "" : ",", holder.names));
  AddExtension(certificate.get(), NID_ext_key_usage, holder.key_usage);
  X509_sign(certificate.get(), rep_->key.get(), EVP_sha256());
  return {.pem = PemOf(certificate.get()), .key_pem = PemOf(key.get())};
}

TestCertificate TestAuthority::IssueRole(const std::string& path) const {
  return Issue({.names = absl::StrCat("URI:spiffe://test/baton/", path)});
}

std::string TestAuthority::Revoke(const List& list) const {
  const std::unique_ptr<X509_CRL, Delete> crl(X509_CRL_new());
  X509_CRL_set_version(crl.get(), 1);  // version 2
  X509_CRL_set_issuer_name(crl.get(), X509_get_subject_name(rep_->certificate.get()));
  const auto time = [](absl::Time t) {
    return std::unique_ptr<ASN1_TIME, Delete>(ASN1_TIME_set(nullptr, absl::ToTimeT(t)));
  };
  X509_CRL_set1_lastUpdate(crl.get(), time(list.from).get());
  X509_CRL_set1_nextUpdate(crl.get(), time(list.until).get());
  for (const TestCertificate& revoked : list.revoked) {
    const Text text(BIO_new_mem_buf(revoked.pem.data(), static_cast<int>(revoked.pem.size())));
    const Certificate certificate(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
    X509_REVOKED* entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(certificate.get()));
    X509_REVOKED_set_revocationDate(entry, time(list.from).get());
    X509_CRL_add0_revoked(crl.get(), entry);
  }
  if (list.only_changes) {
    const std::unique_ptr<ASN1_INTEGER, Delete> base(ASN1_INTEGER_new());
    ASN1_INTEGER_set(base.get(), 1);
    X509_CRL_add1_ext_i2d(crl.get(), NID_delta_crl, base.get(), 1, 0);
  }
  X509_CRL_sign(crl.get(), rep_->key.get(), EVP_sha256());
  const Text text(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_CRL(text.get(), crl.get());
  return Content(text);
}

std::string WriteTestFile(const std::string& name, const std::string& text) {
  const char* folder = std::getenv("TMPDIR");
  const std::string path =
      absl::StrCat(folder == nullptr ? "/tmp" : folder, "/baton_test_", getpid(), "_", name);
  std::ofstream(path) << text;
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  return path;
}

}  // namespace baton
