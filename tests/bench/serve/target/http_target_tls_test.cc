// The load generator's HTTP over TLS, on a router.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/serve/target/http_target.h"
#include "tests/router/web/web_fixture.h"
#include "tests/support/certificates.h"

namespace baton {
namespace {

using testing::HasSubstr;

const TestAuthority& Fleet() {
  static const auto& authority = *new TestAuthority("fleet");
  return authority;
}

class HttpTargetTlsTest : public WebFixture {
 protected:
  static TlsFlags Files(const std::string& role, const TestCertificate& own) {
    TlsFlags flags;
    flags.cert_file = WriteTestFile(role + ".crt", own.pem);
    flags.key_file = WriteTestFile(role + ".key", own.key_pem);
    flags.ca_file = WriteTestFile("ca.pem", Fleet().pem());
    return flags;
  }

  void StartTls() {
    AddPrefill();
    AddDecode();
    Start();
    server_ = Fleet().IssueRole("router/r");
    const auto credentials = Credentials::Create(Files("router", server_));
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    auto http = HttpServer::Listen("--http-listen", "127.0.0.1:0", *credentials,
                                   /*certificate_optional=*/false, http_options_);
    ASSERT_TRUE(http.ok()) << http.status();
    http_ = *std::move(http);
    http_->Start(router_->http_handler());
  }
  absl::StatusOr<std::unique_ptr<HttpTarget>> Connect(const TlsFlags& tls) const {
    auto credentials = Credentials::Create(tls);
    if (!credentials.ok()) return credentials.status();
    return HttpTarget::Create({.url = *ParseHttpUrl("https://" + http_->address())}, tls,
                              *credentials);
  }

  TestCertificate server_;
};

TEST_F(HttpTargetTlsTest, ShowsItsCertificateAndChecksTheServers) {
  StartTls();
  const TlsFlags own = Files("client", Fleet().IssueRole("client/c"));
  const auto target = Connect(own);
  ASSERT_TRUE(target.ok()) << target.status();
  LoadRecord record;
  (*target)->Send({.prompt = {1, 2, 3}, .output_tokens = 4}, record);
  while ((*target)->Poll(SteadyNow() + absl::Seconds(30)).empty()) continue;
  EXPECT_EQ(record.outcome, RequestOutcome::kCompleted) << record.error;
  EXPECT_EQ(record.output_tokens(), 4u);

  TlsFlags foreign = own;
  foreign.cert_file = foreign.key_file = "";
  foreign.ca_file = WriteTestFile("foreign.pem", TestAuthority("foreign").pem());
  EXPECT_THAT(Connect(foreign).status().ToString(), HasSubstr("TLS: certificate verify failed"));
  TlsFlags renamed = own;
  renamed.server_name = "elsewhere.example";
  EXPECT_THAT(Connect(renamed).status().ToString(), HasSubstr("TLS: certificate verify failed"));
  TlsFlags revoking = own;
  revoking.crl_file = WriteTestFile("crl.pem", Fleet().Revoke({.revoked = {server_}}));
  EXPECT_THAT(Connect(revoking).status().ToString(), HasSubstr("revoked"));
}

TEST_F(HttpTargetTlsTest, PlainTextContradictsCertificates) {
  StartTls();
  const TlsFlags own = Files("client", Fleet().IssueRole("client/c"));
  const auto credentials = Credentials::Create(own);
  EXPECT_THAT(
      HttpTarget::Create({.url = *ParseHttpUrl("http://" + http_->address())}, own, *credentials)
          .status()
          .ToString(),
      HasSubstr("https://"));
}

}  // namespace
}  // namespace baton
