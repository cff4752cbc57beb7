#include "client/certs/certificate_authority.h"

#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/certificates/pem.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Certificate ReadCertificate(const std::string& path) {
  auto certificates = ParseCertificates(ReadText(path));
  EXPECT_TRUE(certificates.ok()) << path << certificates.status();
  return certificates.ok() ? std::move(certificates->front()) : nullptr;
}

mode_t Mode(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class CertificateAuthorityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "certificate_authority_test";
    std::filesystem::remove_all(folder_);
  }

  void Init() {
    const absl::Status made = InitAuthority({.folder = folder_, .trust_domain = "fleet.test"});
    ASSERT_TRUE(made.ok()) << made;
  }
  IssuedCertificate Issue(IssueOptions options) {
    options.folder = folder_;
    const auto issued = IssueCertificate(options);
    EXPECT_TRUE(issued.ok()) << issued.status();
    return issued.value_or(IssuedCertificate());
  }
  // The result of OpenSSL's verification against the authority, for the use `purpose`.
  int Verify(const IssuedCertificate& issued, int purpose) const {
    const Certificate root = ReadCertificate(folder_ + "/ca.crt");
    const Certificate leaf = ReadCertificate(issued.certificate_path);
    const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store(X509_STORE_new(),
                                                                        X509_STORE_free);
    X509_STORE_add_cert(store.get(), root.get());
    X509_STORE_set_flags(store.get(), X509_V_FLAG_X509_STRICT);
    const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> context(
        X509_STORE_CTX_new(), X509_STORE_CTX_free);
    X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr);
    X509_STORE_CTX_set_purpose(context.get(), purpose);
    X509_verify_cert(context.get());
    return X509_STORE_CTX_get_error(context.get());
  }

  std::string folder_;
};

TEST_F(CertificateAuthorityTest, EveryRolesCertificateIsGoodForItsUsesAlone) {
  Init();
  for (const Role role : kAllRoles) {
    const IssuedCertificate issued = Issue({.role = role});
    EXPECT_EQ(issued.id,
              absl::StrCat("spiffe://fleet.test/baton/", RoleName(role), "/", RoleName(role)));
    EXPECT_EQ(Verify(issued, X509_PURPOSE_SSL_CLIENT), X509_V_OK) << issued.id;
    const bool caller = role == Role::kClient || role == Role::kOperator;
    EXPECT_EQ(Verify(issued, X509_PURPOSE_SSL_SERVER),
              caller ? X509_V_ERR_INVALID_PURPOSE : X509_V_OK)
        << issued.id;
    const auto key = ParsePrivateKey(ReadText(issued.key_path));
    ASSERT_TRUE(key.ok()) << key.status();
    const Certificate certificate = ReadCertificate(issued.certificate_path);
    EXPECT_EQ(X509_check_private_key(certificate.get(), key->get()), 1);
    EXPECT_EQ(X509_check_ca(certificate.get()), 0) << "it must not sign others";
  }
}

TEST_F(CertificateAuthorityTest, ACertificateOfAnotherAuthorityDoesNotVerify) {
  Init();
  const IssuedCertificate issued = Issue({.role = Role::kRouter});
  ASSERT_TRUE(InitAuthority({.folder = folder_, .trust_domain = "fleet.test", .force = true}).ok());
  EXPECT_NE(Verify(issued, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
}

TEST_F(CertificateAuthorityTest, ACertificateHasTheIdTheNamesAndTheAddressesAskedFor) {
  Init();
  const IssuedCertificate issued = Issue({.role = Role::kDecode,
                                          .name = "d7",
                                          .dns_names = {"decode.example.org"},
                                          .ip_addresses = {"10.0.0.7", "fd00::7"}});
  EXPECT_EQ(issued.id, "spiffe://fleet.test/baton/decode/d7");
  EXPECT_EQ(issued.certificate_path, folder_ + "/decode-d7.crt");
  const Certificate certificate = ReadCertificate(issued.certificate_path);
  EXPECT_EQ(X509_check_host(certificate.get(), "decode.example.org", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(certificate.get(), "localhost", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(certificate.get(), "10.0.0.7", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate.get(), "fd00::7", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate.get(), "127.0.0.1", 0), 0);
}

TEST_F(CertificateAuthorityTest, AServerWithoutNamesIsReachedOnLoopbackOnly) {
  Init();
  const Certificate router = ReadCertificate(Issue({.role = Role::kRouter}).certificate_path);
  EXPECT_EQ(X509_check_host(router.get(), "localhost", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_ip_asc(router.get(), "127.0.0.1", 0), 1);
  const Certificate client = ReadCertificate(Issue({.role = Role::kClient}).certificate_path);
  EXPECT_EQ(X509_check_ip_asc(client.get(), "127.0.0.1", 0), 0);
}

TEST_F(CertificateAuthorityTest, ACertificateLivesAsLongAsAskedAndNotLongerThanItsAuthority) {
  ASSERT_TRUE(InitAuthority({.folder = folder_, .lifetime = absl::Hours(48)}).ok());
  const Certificate certificate =
      ReadCertificate(Issue({.lifetime = absl::Hours(24)}).certificate_path);
  EXPECT_LT(ValidFrom(*certificate), absl::Now());
  EXPECT_GT(ValidUntil(*certificate), absl::Now() + absl::Hours(23));
  EXPECT_LT(ValidUntil(*certificate), absl::Now() + absl::Hours(25));
  EXPECT_THAT(Message(IssueCertificate({.folder = folder_, .lifetime = absl::Hours(49)}).status()),
              AllOf(HasSubstr("--lifetime 49h"), HasSubstr(folder_ + "/ca.crt")));
}

TEST_F(CertificateAuthorityTest, SecretsAreTheirOwnersOnly) {
  Init();
  const IssuedCertificate issued = Issue({.role = Role::kRouter});
  EXPECT_EQ(Mode(folder_), 0700u);
  for (const std::string& path :
       {folder_ + "/ca.key", folder_ + "/fleet-secret", issued.key_path}) {
    EXPECT_EQ(Mode(path), 0600u) << path;
  }
  EXPECT_EQ(Mode(issued.certificate_path), 0644u);
  EXPECT_THAT(ReadText(folder_ + "/fleet-secret"), MatchesRegex("[0-9a-f]{64}\n"));
  // Nothing temporary is left.
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) files += entry.exists();
  EXPECT_EQ(files, 7u) << "the four of the authority, issued.txt and the pair";
}

TEST_F(CertificateAuthorityTest, FilesThatAreThereAreReplacedByForceOnly) {
  Init();
  const IssuedCertificate issued = Issue({.role = Role::kFront});
  const std::string authority = ReadText(folder_ + "/ca.crt"),
                    secret = ReadText(folder_ + "/fleet-secret");
  const std::string certificate = ReadText(issued.certificate_path);
  EXPECT_THAT(Message(InitAuthority({.folder = folder_})),
              AllOf(HasSubstr(folder_ + "/ca.key"), HasSubstr("--force")));
  EXPECT_THAT(Message(IssueCertificate({.folder = folder_, .role = Role::kFront}).status()),
              AllOf(HasSubstr(folder_ + "/front.key"), HasSubstr("--force")));
  // What one file of several stands in the way of is not begun.
  std::filesystem::remove(issued.key_path);
  EXPECT_THAT(Message(IssueCertificate({.folder = folder_, .role = Role::kFront}).status()),
              HasSubstr(folder_ + "/front.crt"));
  EXPECT_FALSE(std::filesystem::exists(issued.key_path));
  EXPECT_EQ(ReadText(folder_ + "/ca.crt"), authority);
  EXPECT_EQ(ReadText(issued.certificate_path), certificate);

  Issue({.role = Role::kFront, .force = true});
  EXPECT_NE(ReadText(issued.certificate_path), certificate);
  ASSERT_TRUE(InitAuthority({.folder = folder_, .force = true}).ok());
  EXPECT_NE(ReadText(folder_ + "/ca.crt"), authority);
  EXPECT_NE(ReadText(folder_ + "/fleet-secret"), secret);
}

TEST_F(CertificateAuthorityTest, WhatIsWrongIsNamedWithItsRemedy) {
  const auto issue = [this](IssueOptions options) {
    options.folder = folder_;
    return Message(IssueCertificate(options).status());
  };
  EXPECT_THAT(issue({}), AllOf(HasSubstr(folder_ + "/ca.crt"), HasSubstr("baton certs init")));
  EXPECT_THAT(Message(InitAuthority({.folder = folder_, .trust_domain = "Fleet/a"})),
              HasSubstr("--trust-domain"));
  EXPECT_THAT(Message(InitAuthority({.folder = "/dev/null/certs"})),
              AllOf(HasSubstr("/dev/null/certs"), HasSubstr("--folder")));
  Init();
  EXPECT_THAT(issue({.name = "a/b"}), HasSubstr("--name 'a/b'"));
  EXPECT_THAT(issue({.name = ".."}), HasSubstr("--name"));
  EXPECT_THAT(issue({.dns_names = {"a,URI:spiffe://x"}}), HasSubstr("--dns"));
  EXPECT_THAT(issue({.ip_addresses = {"10.0.0.256"}}), HasSubstr("--ip '10.0.0.256'"));
  std::filesystem::copy_file(Issue({}).key_path, folder_ + "/ca.key",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(issue({.name = "late"}), HasSubstr("ca.key: is not the key of"));
  std::ofstream(folder_ + "/ca.crt") << "no certificate";
  EXPECT_THAT(issue({.name = "late"}), HasSubstr("ca.crt: contains no certificate"));
}

}  // namespace
}  // namespace baton
