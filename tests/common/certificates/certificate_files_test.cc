#include "common/certificates/certificate_files.h"

#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/certificates.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(CertificateFiles, ACertificateIsNotTakenBeforeItsTime) {
  const TestAuthority authority("authority");
  const TestCertificate own = authority.IssueRole("decode/d-0");
  const CertificateTexts texts{.chain = own.pem, .key = own.key_pem, .roots = authority.pem()};
  EXPECT_TRUE(CheckCertificates({}, texts, absl::Now()).ok());
  const absl::Status early = CheckCertificates({}, texts, absl::Now() - absl::Hours(24)).status();
  EXPECT_THAT(std::string(early.message()), HasSubstr("is not valid before"));
}

TEST(CertificateFiles, OneForClientsOnlyNeedsNeitherRoleNorAuthority) {
  const TestCertificate own = TestAuthority("public").Issue({});
  TlsFlags tls;
  tls.cert_file = WriteTestFile("door.pem", own.pem);
  tls.key_file = WriteTestFile("door.key", own.key_pem);
  EXPECT_THAT(std::string(ReadCertificateFiles(tls).status().message()),
              HasSubstr("--tls-ca is missing"));
  tls.for_clients_only = true;
  const auto texts = ReadCertificateFiles(tls);
  ASSERT_TRUE(texts.ok()) << texts.status();
  const auto facts = CheckCertificates(tls, *texts, absl::Now());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->trust_domain, "");
  EXPECT_EQ(facts->roots_end, absl::InfiniteFuture());
  EXPECT_LT(facts->chain_ends, absl::Now() + absl::Hours(2));

  tls.ca_file = "/nowhere/ca.pem";
  EXPECT_THAT(std::string(ReadCertificateFiles(tls).status().message()),
              HasSubstr("--tls-ca /nowhere/ca.pem"))
      << "it is read where it is given";
  tls.key_file.clear();
  EXPECT_EQ(ReadCertificateFiles(tls).status().message(),
            "--tls-key is missing: give --tls-cert and --tls-key together");
}

}  // namespace
}  // namespace baton
