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

}  // namespace
}  // namespace baton
