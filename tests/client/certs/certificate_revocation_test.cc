#include "client/certs/certificate_revocation.h"

#include <openssl/x509.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/certs/certificate_authority.h"
#include "common/certificates/certificate_files.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// An authority in a folder, what it issues, and what a server makes of its list.
class CertificateRevocationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "certificate_revocation_test";
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(InitAuthority({.folder = folder_, .trust_domain = "fleet.test"}).ok());
  }

  Certificate Issue(Role role, const std::string& name = "", bool force = false) const {
    const auto issued =
        IssueCertificate({.folder = folder_, .role = role, .name = name, .force = force});
    EXPECT_TRUE(issued.ok()) << issued.status();
    return std::move(ParseCertificates(Text(issued->certificate_path))->front());
  }
  RevocationReport Revoke(RevokeOptions options) const {
    options.folder = folder_;
    const auto report = RevokeCertificates(options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(RevocationReport());
  }
  std::string Error(RevokeOptions options) const {
    options.folder = folder_;
    return std::string(RevokeCertificates(options).status().message());
  }
  // Whether the list, which is right in a server's eyes, names the certificate.
  bool Lists(const Certificate& certificate, absl::Time now = absl::Now()) const {
    TlsFlags tls;
    tls.cert_file = tls.ca_file = folder_ + "/ca.crt";
    tls.crl_file = folder_ + "/ca.crl";
    const auto lists = CheckRevocationLists(tls, Text(tls.crl_file), now);
    EXPECT_TRUE(lists.ok()) << lists.status();
    X509_REVOKED* entry = nullptr;
    return lists.ok() &&
           X509_CRL_get0_by_cert(lists->front().get(), &entry, certificate.get()) == 1;
  }
  static std::string Text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  std::string folder_;
};

TEST_F(CertificateRevocationTest, ANewAuthorityHasAListThatIsGoodForAMonth) {
  const Certificate certificate = Issue(Role::kPrefill);
  EXPECT_FALSE(Lists(certificate, absl::Now() - absl::Minutes(4)));
  EXPECT_FALSE(Lists(certificate, absl::Now() + absl::Hours(24 * 30 - 1)));
}

TEST_F(CertificateRevocationTest, ARoleLosesAllThatItsNameWasIssuedAndNobodyElseAny) {
  const Certificate old = Issue(Role::kPrefill, "p7");
  const Certificate renewed = Issue(Role::kPrefill, "p7", true);
  const Certificate other = Issue(Role::kPrefill), decode = Issue(Role::kDecode, "p7");
  EXPECT_EQ(Revoke({.certificate = "prefill", .name = "p7"}).serials.size(), 2u);
  EXPECT_TRUE(Lists(old));
  EXPECT_TRUE(Lists(renewed));
  EXPECT_FALSE(Lists(other));
  EXPECT_FALSE(Lists(decode));
  EXPECT_FALSE(Lists(Issue(Role::kPrefill, "p7", true))) << "what it was issued since";

  EXPECT_EQ(Revoke({.certificate = "prefill"}).serials.size(), 1u);
  EXPECT_TRUE(Lists(other));
  EXPECT_TRUE(Lists(old)) << "once revoked, it stays so";
  EXPECT_TRUE(Revoke({.certificate = "prefill"}).serials.empty());
}

TEST_F(CertificateRevocationTest, ASerialNumberRevokesOneCertificate) {
  const Certificate old = Issue(Role::kClient), renewed = Issue(Role::kClient, "", true);
  const std::string issued = Text(folder_ + "/issued.txt");
  const std::string serial = issued.substr(0, issued.find(' '));
  EXPECT_EQ(Revoke({.certificate = serial}).serials, std::vector<std::string>{serial});
  EXPECT_TRUE(Lists(old));
  EXPECT_FALSE(Lists(renewed));
}

TEST_F(CertificateRevocationTest, WithoutACertificateTheListIsOnlyRenewed) {
  const Certificate certificate = Issue(Role::kRouter);
  Revoke({.certificate = "router"});
  const RevocationReport report = Revoke({.lifetime = absl::Hours(24 * 90)});
  EXPECT_TRUE(report.serials.empty());
  EXPECT_GT(report.good_until, absl::Now() + absl::Hours(24 * 89));
  EXPECT_TRUE(Lists(certificate, absl::Now() + absl::Hours(24 * 89)));
}

TEST_F(CertificateRevocationTest, AnAuthorityThatHadNoListGetsOne) {
  std::filesystem::remove(folder_ + "/ca.crl");
  const Certificate certificate = Issue(Role::kRouter);
  Revoke({.certificate = "router"});
  EXPECT_TRUE(Lists(certificate));
}

TEST_F(CertificateRevocationTest, WhatIsWrongIsNamedWithItsRemedy) {
  EXPECT_THAT(Error({.certificate = "prefill"}),
              AllOf(HasSubstr("issued.txt"), HasSubstr("spiffe://fleet.test/baton/prefill/prefill"),
                    HasSubstr("--name")));
  EXPECT_THAT(Error({.certificate = "prefil"}),
              AllOf(HasSubstr("'prefil'"), HasSubstr("serial number"), HasSubstr("prefill")));
  EXPECT_THAT(Error({.certificate = std::string(41, 'a')}), HasSubstr("serial number"));
  EXPECT_THAT(Error({.certificate = "00ff", .name = "a"}), HasSubstr("--name"));
  EXPECT_THAT(Error({.certificate = "router", .name = ".."}), HasSubstr("--name"));
  std::ofstream(folder_ + "/ca.crl") << "no list";
  EXPECT_THAT(Error({}), AllOf(HasSubstr("ca.crl"), HasSubstr("contains no revocation list")));
  const std::string other = folder_ + "/other";
  ASSERT_TRUE(InitAuthority({.folder = other}).ok());
  std::filesystem::copy_file(other + "/ca.crl", folder_ + "/ca.crl",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(Error({}), HasSubstr("ca.crl: is not the revocation list of this authority"));
  std::filesystem::remove(folder_ + "/ca.key");
  EXPECT_THAT(Error({}), AllOf(HasSubstr("ca.key"), HasSubstr("baton certs init")));
}

}  // namespace
}  // namespace baton
