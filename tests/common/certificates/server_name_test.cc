#include "common/certificates/server_name.h"

#include <cstdlib>

#include "gtest/gtest.h"

#include "tests/support/certificates.h"

namespace baton {
namespace {

// A certificate for these names and 127.0.0.1.
std::string Chain(const std::string& names) {
  static const auto& authority = *new TestAuthority("authority");
  return authority.Issue({.names = names}).pem;
}

TEST(HostToCall, IsTheServersOwnIfTheCertificateNamesIt) {
  EXPECT_EQ(HostToCall(Chain("DNS:baton.example"), "baton.example"), "baton.example");
  EXPECT_EQ(HostToCall(Chain("IP:192.0.2.7"), "192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(HostToCall(Chain("DNS:*.example"), "baton.example"), "baton.example");
  EXPECT_EQ(HostToCall(Chain("IP:2001:db8::1"), "2001:db8::1"), "2001:db8::1");
}

TEST(HostToCall, IsOfLoopbackFirstWhereTheServerListensThere) {
  const std::string chain = Chain("DNS:baton.example,DNS:localhost");
  for (const char* host : {"0.0.0.0", "::", "::1"}) {
    EXPECT_EQ(HostToCall(chain, host), "127.0.0.1") << host;
  }
  EXPECT_EQ(HostToCall(chain, "192.0.2.7"), "baton.example");
}

TEST(HostToCall, IsTheServersOwnIfNoNameServes) {
  EXPECT_EQ(HostToCall(Chain(""), "192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(HostToCall(Chain("DNS:*.example"), "192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(HostToCall("no certificate", "0.0.0.0"), "0.0.0.0");
}

TEST(IsPubliclyTrusted, IsWhatTheMachinesAuthoritiesSay) {
  const TestAuthority authority("authority");
  const std::string chain = authority.Issue({}).pem;
  EXPECT_FALSE(IsPubliclyTrusted(chain));
  EXPECT_FALSE(IsPubliclyTrusted("no certificate"));
  setenv("SSL_CERT_FILE", WriteTestFile("machine.pem", authority.pem()).c_str(), 1);
  EXPECT_TRUE(IsPubliclyTrusted(chain));
  EXPECT_FALSE(IsPubliclyTrusted(authority.Issue({.until = absl::Now() - absl::Hours(1)}).pem));
  EXPECT_FALSE(IsPubliclyTrusted(authority.Issue({.key_usage = "clientAuth"}).pem));
  unsetenv("SSL_CERT_FILE");
}

}  // namespace
}  // namespace baton
