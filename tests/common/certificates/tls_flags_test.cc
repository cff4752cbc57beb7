#include "common/certificates/tls_flags.h"

#include <iterator>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(TlsFlags, EachFlagSetsItsField) {
  TlsFlags tls;
  FlagSet flags("prog", "A test.");
  AddTlsFlags(flags, tls);
  const char* const arguments[] = {
      "prog",  "--tls-cert=c.pem",        "--tls-key=k.pem", "--tls-ca=a.pem", "--tls-crl",
      "r.pem", "--tls-server-name=w.org", "--insecure"};
  const absl::Status parsed = flags.Parse(static_cast<int>(std::size(arguments)), arguments);
  ASSERT_TRUE(parsed.ok()) << parsed;
  EXPECT_EQ(tls.cert_file, "c.pem");
  EXPECT_EQ(tls.key_file, "k.pem");
  EXPECT_EQ(tls.ca_file, "a.pem");
  EXPECT_EQ(tls.crl_file, "r.pem");
  EXPECT_EQ(tls.server_name, "w.org");
  EXPECT_TRUE(tls.insecure);
  EXPECT_TRUE(tls.client_ca_file.empty()) << "only some servers have that flag";
  EXPECT_FALSE(tls.certificate_optional);
}

TEST(TlsFlags, AnAuthorityAloneIsTlsWithoutACertificateOfItsOwn) {
  EXPECT_FALSE(TlsFlags().enabled());
  TlsFlags client;
  client.ca_file = "a.pem";
  EXPECT_TRUE(client.enabled());
  EXPECT_FALSE(client.own_certificate());
  TlsFlags half;
  half.key_file = "k.pem";
  EXPECT_TRUE(half.own_certificate()) << "what lacks is found where the files are read";
}

}  // namespace
}  // namespace baton
