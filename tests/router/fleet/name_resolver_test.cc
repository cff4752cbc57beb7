#include "router/fleet/name_resolver.h"

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/fleet/played_dns.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

const absl::Time kStart = absl::UnixEpoch();

void AwaitAnswers(const NameResolver& resolver, uint64_t answers) {
  while (resolver.answers() < answers) std::this_thread::yield();
}

TEST(NameResolver, ASilentNameHoldsUpNoOtherNameAndNotTheEnd) {
  PlayedDns dns;
  dns.Answer("b", std::vector<std::string>{"10.0.0.2"});
  {
    NameResolver resolver(dns.LookUp());
    resolver.Ask({"silent", "b"}, kStart);
    AwaitAnswers(resolver, 1);
    dns.AwaitRunning(1);
    EXPECT_THAT(**resolver.Latest("b"), ElementsAre("10.0.0.2"));
    EXPECT_FALSE(resolver.Latest("silent").has_value());
    EXPECT_THAT(resolver.WaitsSince("silent"), Optional(kStart));
    EXPECT_FALSE(resolver.WaitsSince("b").has_value());
  }
  dns.AwaitRunning(1);  // the resolver is gone, and the lookup still waits
}

TEST(NameResolver, ANameHasOneLookupAtATimeAndKeepsItsLastAnswerMeanwhile) {
  PlayedDns dns;
  NameResolver resolver(dns.LookUp());
  resolver.Ask({"a", "a"}, kStart);
  dns.AwaitRunning(1);
  resolver.Ask({"a"}, kStart + absl::Seconds(2));
  EXPECT_EQ(dns.asked("a"), 1);
  dns.Answer("a", absl::NotFoundError("no such host"));
  AwaitAnswers(resolver, 1);
  EXPECT_TRUE(absl::IsNotFound(resolver.Latest("a")->status()));
  dns.Answer("a", std::vector<std::string>{"10.0.0.1"});
  resolver.Ask({"a"}, kStart + absl::Seconds(4));
  AwaitAnswers(resolver, 2);
  EXPECT_THAT(**resolver.Latest("a"), ElementsAre("10.0.0.1"));
}

TEST(NameResolver, LookupsAreBoundedAndNoNameIsLeftOutForever) {
  PlayedDns dns;
  NameResolver resolver(dns.LookUp());
  std::vector<std::string> hosts = {"z"};
  for (int i = 0; i < NameResolver::kMaxLookups; ++i) hosts.push_back(absl::StrCat("a", i));
  resolver.Ask(hosts, kStart);
  dns.AwaitRunning(NameResolver::kMaxLookups);
  EXPECT_EQ(dns.asked("z"), 0) << "the last one by name";
  dns.Answer("a0", std::vector<std::string>{});
  dns.Answer("z", std::vector<std::string>{"10.0.0.1"});
  AwaitAnswers(resolver, 1);
  resolver.Ask(hosts, kStart + absl::Seconds(2));
  AwaitAnswers(resolver, 2);
  EXPECT_THAT(**resolver.Latest("z"), ElementsAre("10.0.0.1"));
}

TEST(NameResolver, AnAddressIsAnsweredAtOnceAndForgottenHostsAreNot) {
  PlayedDns dns;
  NameResolver resolver(dns.LookUp());
  resolver.Ask({"127.1", "2001:db8:0::5"}, kStart);
  EXPECT_THAT(**resolver.Latest("127.1"), ElementsAre("127.0.0.1"));
  EXPECT_THAT(**resolver.Latest("2001:db8:0::5"), ElementsAre("2001:db8::5"));
  resolver.Ask({}, kStart);
  EXPECT_FALSE(resolver.Latest("127.1").has_value());
  EXPECT_EQ(resolver.answers(), 0u);
}

TEST(LookUpHost, KnowsThisMachine) {
  const HostAddresses found = LookUpHost("localhost");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, ::testing::Contains("127.0.0.1"));
}

}  // namespace
}  // namespace baton
