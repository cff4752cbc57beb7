#include "common/net/certificate_metrics.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/certificates.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The value of the gauge for this file; -1 if there is none.
double SecondsLeft(const std::string& text, const std::string& file) {
  const std::string begin =
      absl::StrCat("baton_tls_certificate_expiry_seconds{file=\"", file, "\",");
  const size_t line = text.find(begin);
  return line == std::string::npos ? -1 : std::strtod(&text[text.find(' ', line)], nullptr);
}

class CertificateMetricsTest : public ::testing::Test {
 protected:
  CertificateMetricsTest() {
    const TestCertificate own = authority_.Issue(
        {.names = "URI:spiffe://test/baton/decode/d", .until = absl::Now() + absl::Hours(2)});
    tls_.cert_file = WriteTestFile("metrics.pem", own.pem);
    tls_.key_file = WriteTestFile("metrics.key", own.key_pem);
    tls_.ca_file = WriteTestFile("metrics-ca.pem", authority_.pem());
    tls_.crl_file =
        WriteTestFile("metrics.crl", authority_.Revoke({.until = absl::Now() + absl::Hours(5)}));
  }
  std::string Scrape() const {
    const auto credentials = Credentials::Create(tls_);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    if (!credentials.ok()) return "";
    Metrics metrics("decode");
    AddCertificateMetrics(*credentials, tls_, metrics);
    return metrics.Scrape();
  }

  const TestAuthority authority_{"authority"};
  TlsFlags tls_;
};

TEST_F(CertificateMetricsTest, TellWhenEachFileEnds) {
  const std::string text = Scrape();
  EXPECT_NEAR(SecondsLeft(text, "tls-cert"), 2 * 3600, 100);
  EXPECT_NEAR(SecondsLeft(text, "tls-crl"), 5 * 3600, 100);
  EXPECT_GT(SecondsLeft(text, "tls-ca"), 0);
  tls_.crl_file.clear();
  EXPECT_THAT(Scrape(), Not(HasSubstr("tls-crl")));
  tls_.for_clients_only = true;
  tls_.ca_file.clear();
  EXPECT_THAT(Scrape(), AllOf(HasSubstr("tls-cert"), Not(HasSubstr("tls-ca"))));
}

TEST_F(CertificateMetricsTest, CountRenewalsFromNone) {
  const std::string text = Scrape();
  EXPECT_THAT(text, HasSubstr("baton_tls_reloads_total{model_name=\"\",role=\"decode\"} 0\n"));
  EXPECT_THAT(text,
              HasSubstr("baton_tls_failed_reloads_total{model_name=\"\",role=\"decode\"} 0\n"));
}

}  // namespace
}  // namespace baton
