#include "client/doctor/certificate_findings.h"

#include <sys/stat.h>

#include <filesystem>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/certs/certificate_authority.h"
#include "client/certs/certificate_revocation.h"
#include "tests/client/doctor/find_finding.h"
#include "tests/support/certificates.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kDay = absl::Hours(24);

// A fleet's authority with a router's certificate of 90 days, as `baton certs` makes them.
class CertificateFindingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "certificate_findings_test";
    std::filesystem::remove_all(folder_);
    MakeAuthority(folder_);
    Issue(folder_, Role::kRouter);
  }

  static void MakeAuthority(const std::string& folder) {
    ASSERT_TRUE(InitAuthority({.folder = folder, .trust_domain = "fleet.test"}).ok());
  }
  static void Issue(const std::string& folder, Role role, absl::Duration lifetime = 90 * kDay) {
    const auto issued =
        IssueCertificate({.folder = folder, .role = role, .lifetime = lifetime, .force = true});
    ASSERT_TRUE(issued.ok()) << issued.status();
  }
  TlsFlags Tls(const std::string& name = "router") const {
    TlsFlags tls;
    tls.cert_file = folder_ + "/" + name + ".crt";
    tls.key_file = folder_ + "/" + name + ".key";
    tls.ca_file = folder_ + "/ca.crt";
    tls.crl_file = folder_ + "/ca.crl";
    return tls;
  }
  // What is found `later` than now of a router's files.
  static Findings Of(const TlsFlags& tls, absl::Duration later = absl::ZeroDuration()) {
    const absl::Time now = absl::Now() + later;
    return CertificateFindings(GatherCertificateUse("router.toml", {Role::kRouter}, tls, now), now);
  }

  std::string folder_;
};

TEST_F(CertificateFindingsTest, AreOkOfFilesThatBelongTogether) {
  const Findings findings = Of(Tls());
  EXPECT_EQ(findings.size(), 7u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.check << ": " << finding.found;
  }
  EXPECT_EQ(FindFinding(findings, "certificate.role").found,
            "spiffe://fleet.test/baton/router/router");
}

TEST_F(CertificateFindingsTest, TellAnExpiredCertificateAndNothingElseOfIt) {
  const Findings findings = Of(Tls(), 91 * kDay);
  const Finding expiry = FindFinding(findings, "certificate.expiry", "router.crt");
  EXPECT_EQ(expiry.verdict, Verdict::kFailed);
  EXPECT_THAT(expiry.found, HasSubstr("expired at"));
  EXPECT_THAT(expiry.remedy, HasSubstr("baton certs issue"));
  EXPECT_EQ(FindFinding(findings, "certificate.files").verdict, Verdict::kOk);
  EXPECT_EQ(FindFinding(findings, "certificate.chain").verdict, Verdict::kOk);
}

TEST_F(CertificateFindingsTest, WarnWithinAWeekOrTheLastQuarterOfAShortLife) {
  const auto expiry = [&](absl::Duration later) {
    return FindFinding(Of(Tls(), later), "certificate.expiry", "router.crt").verdict;
  };
  EXPECT_EQ(expiry(82 * kDay), Verdict::kOk);
  EXPECT_EQ(expiry(84 * kDay), Verdict::kWarning);
  Issue(folder_, Role::kRouter, kDay);
  EXPECT_EQ(expiry(absl::Hours(17)), Verdict::kOk) << "a life of a day is normal";
  EXPECT_EQ(expiry(absl::Hours(19)), Verdict::kWarning);
}

TEST_F(CertificateFindingsTest, TellOneThatIsNotValidYet) {
  const Finding expiry = FindFinding(Of(Tls(), -kDay), "certificate.expiry", "router.crt");
  EXPECT_EQ(expiry.verdict, Verdict::kFailed);
  EXPECT_THAT(expiry.found, HasSubstr("not valid before"));
  EXPECT_THAT(expiry.remedy, HasSubstr("clock"));
}

TEST_F(CertificateFindingsTest, AreOkOfOneForClientsOnlyWithoutARole) {
  const TestCertificate own = TestAuthority("public").Issue({.until = absl::Now() + 90 * kDay});
  TlsFlags tls;
  tls.for_clients_only = true;
  tls.cert_file = WriteTestFile("door.pem", own.pem);
  tls.key_file = WriteTestFile("door.key", own.key_pem);
  ASSERT_EQ(chmod(tls.key_file.c_str(), 0600), 0);
  const Findings findings = Of(tls);
  EXPECT_EQ(findings.size(), 4u) << "its files, its key's mode, its role and its end";
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.check << ": " << finding.found;
  }
  EXPECT_THAT(FindFinding(findings, "certificate.role").found, HasSubstr("no role"));
  EXPECT_EQ(FindFinding(Of(tls, 91 * kDay), "certificate.expiry").remedy,
            "get a new one from its issuer");
  Issue(folder_, Role::kDecode);
  tls = Tls("decode");
  tls.for_clients_only = true;
  EXPECT_EQ(FindFinding(Of(tls), "certificate.role").verdict, Verdict::kFailed);
}

TEST_F(CertificateFindingsTest, TellARoleThatDoesNotFit) {
  Issue(folder_, Role::kDecode);
  const Finding role = FindFinding(Of(Tls("decode")), "certificate.role");
  EXPECT_EQ(role.verdict, Verdict::kFailed);
  EXPECT_THAT(role.found, HasSubstr("role is decode, but must be router"));
}

TEST_F(CertificateFindingsTest, TellAnAuthorityThatHasNotSigned) {
  MakeAuthority(folder_ + "/other");
  TlsFlags tls = Tls();
  tls.ca_file = folder_ + "/other/ca.crt";
  tls.crl_file = "";
  const Findings findings = Of(tls);
  EXPECT_EQ(FindFinding(findings, "certificate.chain").verdict, Verdict::kFailed);
  EXPECT_EQ(FindFinding(findings, "certificate.revocation").verdict, Verdict::kSkipped);
}

TEST_F(CertificateFindingsTest, TellAKeyOfAnotherCertificateAndAMissingFile) {
  Issue(folder_, Role::kDecode);
  TlsFlags tls = Tls();
  tls.key_file = folder_ + "/decode.key";
  EXPECT_THAT(FindFinding(Of(tls), "certificate.files").found, HasSubstr("is not the key of"));
  tls.key_file = folder_ + "/none.key";
  EXPECT_THAT(FindFinding(Of(tls), "certificate.files").found, HasSubstr("none.key"));
}

TEST_F(CertificateFindingsTest, TellAKeyThatEverybodyMayRead) {
  const auto verdict = [&](mode_t mode) {
    chmod(Tls().key_file.c_str(), mode);
    return FindFinding(Of(Tls()), "certificate.key_mode").verdict;
  };
  EXPECT_EQ(verdict(0600), Verdict::kOk);
  EXPECT_EQ(verdict(0640), Verdict::kOk);
  EXPECT_EQ(verdict(0644), Verdict::kFailed);
  EXPECT_EQ(verdict(0620), Verdict::kFailed);
}

TEST_F(CertificateFindingsTest, TellARevokedCertificateAndAnOldList) {
  EXPECT_EQ(FindFinding(Of(Tls(), 31 * kDay), "certificate.revocation").verdict, Verdict::kFailed);
  EXPECT_EQ(FindFinding(Of(Tls(), 25 * kDay), "certificate.revocation").verdict, Verdict::kWarning);
  ASSERT_TRUE(RevokeCertificates({.folder = folder_, .certificate = "router"}).ok());
  const Finding revoked = FindFinding(Of(Tls()), "certificate.revocation");
  EXPECT_EQ(revoked.verdict, Verdict::kFailed);
  EXPECT_THAT(revoked.found, HasSubstr("the list revokes"));
}

TEST_F(CertificateFindingsTest, AreOneThatIsSkippedWithoutTls) {
  const Findings findings = Of(TlsFlags());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kSkipped);
}

}  // namespace
}  // namespace baton
