#include "prefill_worker/channel_cache.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "tests/support/certificates.h"

namespace baton {
namespace {

TEST(ChannelCache, ChangedCertificatesAndListsMakeNewChannels) {
  const TestAuthority authority("authority");
  const TestCertificate first = authority.IssueRole("prefill/a");
  const TestCertificate second = authority.IssueRole("prefill/a");
  TlsFlags tls;
  tls.cert_file = WriteTestFile("cached.pem", first.pem);
  tls.key_file = WriteTestFile("cached.key", first.key_pem);
  tls.ca_file = WriteTestFile("cached-ca.pem", authority.pem());
  tls.crl_file = WriteTestFile("cached.crl", authority.Revoke({}));
  const Credentials credentials = *Credentials::Create(tls, absl::Milliseconds(2));
  const auto wait_for_changes = [&](uint64_t changes) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (credentials.changes() < changes) {
      ASSERT_LT(absl::Now(), deadline);
      absl::SleepFor(absl::Milliseconds(1));
    }
  };

  ChannelCache cache({.credentials = credentials});
  const ChannelCache::Channels before = *cache.Get("127.0.0.1:1");
  EXPECT_EQ(*cache.Get("127.0.0.1:1"), before);
  WriteTestFile("cached.crl", authority.Revoke({.revoked = {first}}));
  wait_for_changes(1);
  const ChannelCache::Channels after = *cache.Get("127.0.0.1:1");
  EXPECT_NE(after, before);
  WriteTestFile("cached.pem", second.pem);
  WriteTestFile("cached.key", second.key_pem);
  wait_for_changes(2);
  EXPECT_NE(*cache.Get("127.0.0.1:1"), after);
  EXPECT_EQ(cache.size(), 1u);
}

}  // namespace
}  // namespace baton
