#include "prefill_worker/channel_cache.h"

#include <chrono>
#include <utility>

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

TEST(ChannelCache, ChannelsToANameThatCannotConnectAreMadeAnew) {
  TlsFlags plain;
  plain.insecure = true;
  ChannelCache cache({.credentials = *Credentials::Create(plain)});
  // Nothing listens at port 1.
  for (const auto& [address, anew] :
       {std::pair("localhost:1", true), std::pair("127.0.0.1:1", false)}) {
    const ChannelCache::Channels before = *cache.Get(address);
    EXPECT_EQ(*cache.Get(address), before);
    grpc_connectivity_state state = before[0]->GetState(/*try_to_connect=*/true);
    while (state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
      ASSERT_TRUE(before[0]->WaitForStateChange(
          state, std::chrono::system_clock::now() + std::chrono::seconds(20)));
      state = before[0]->GetState(/*try_to_connect=*/true);
    }
    EXPECT_EQ(*cache.Get(address) != before, anew) << address;
  }
  EXPECT_EQ(cache.size(), 2u);
}

}  // namespace
}  // namespace baton
