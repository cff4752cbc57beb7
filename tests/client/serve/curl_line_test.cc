#include "client/serve/curl_line.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/certificates.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The flags of a server with a certificate for 127.0.0.1 and baton.example in a file of that name.
TlsFlags Tls(const std::string& file) {
  const TestCertificate own = TestAuthority("authority").Issue({.names = "DNS:baton.example"});
  TlsFlags tls;
  tls.for_clients_only = true;
  tls.cert_file = WriteTestFile(file, own.pem);
  tls.key_file = WriteTestFile("curl.key", own.key_pem);
  return tls;
}

TEST(CurlLine, IsInPlainTextWithoutACertificate) {
  const std::string line = CurlLine("127.0.0.1:8080", /*needs_key=*/false, {});
  EXPECT_THAT(line, StartsWith("  curl http://127.0.0.1:8080/v1/chat/completions "));
  EXPECT_THAT(line, Not(HasSubstr("Authorization")));
  EXPECT_THAT(CurlLine("127.0.0.1:8080", /*needs_key=*/true, {}),
              HasSubstr(R"(-H "Authorization: Bearer $BATON_API_KEY")"));
}

TEST(CurlLine, CallsAHostOfTheCertificateAndTrustsIt) {
  const TlsFlags tls = Tls("curl.pem");
  EXPECT_THAT(CurlLine("0.0.0.0:8443", /*needs_key=*/true, tls),
              StartsWith("  curl --cacert " + tls.cert_file + " https://127.0.0.1:8443/"));
  EXPECT_THAT(CurlLine("192.0.2.7:8443", /*needs_key=*/true, tls),
              HasSubstr(" https://baton.example:8443/"));
}

TEST(CurlLine, ShowsACertificateWhereClientsHaveNoKey) {
  EXPECT_THAT(
      CurlLine("0.0.0.0:8443", /*needs_key=*/false, Tls("curl.pem")),
      AllOf(HasSubstr(" --cert client.crt --key client.key "), Not(HasSubstr("Authorization"))));
}

TEST(CurlLine, QuotesAPathForTheShell) {
  EXPECT_THAT(CurlLine("0.0.0.0:8443", /*needs_key=*/true, Tls("it's mine.pem")),
              HasSubstr("it'\\''s mine.pem' https://"));
}

}  // namespace
}  // namespace baton
