#include "router/web/allowed_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::HasSubstr;

TEST(AllowedHosts, ByDefaultOnlyLoopbackNamesAre) {
  for (const char* host :
       {"localhost", "LocalHost.:8080", "127.0.0.1:8080", "127.0.0.1", "[::1]", "[::1]:8080"}) {
    EXPECT_TRUE(IsAllowed({}, host)) << host;
  }
  for (const char* host : {"", "baton-router", "192.0.2.2:8080", "[2001:db8::1]", "host.local",
                           "127.0.0.2", "evil.example", "localhost.evil.example"}) {
    EXPECT_FALSE(IsAllowed({}, host)) << host;
  }
}

TEST(AllowedHosts, OfATrustedNetworkAddressesAndItsOwnNamesAre) {
  const AllowedHosts hosts{.trusted_network = true};
  for (const char* host :
       {"localhost:8080", "192.0.2.2:8080", "10.0.0.7", "[2001:db8::1]:8080", "baton-router:8080",
        "Baton_Router", "desk.local", "desk.LOCAL.:8080", "llm.corp.internal",
        "baton-router.ns.svc", "baton-router.ns.svc.cluster.local:8080"}) {
    EXPECT_TRUE(IsAllowed(hosts, host)) << host;
  }
}

// A stranger's DNS decides what these mean.
TEST(AllowedHosts, OfATrustedNetworkTheInternetsNamesAreNot) {
  const AllowedHosts hosts{.trusted_network = true};
  for (const char* host :
       {"evil.example", "evil.example:8080", "local.evil.example", "evil.example.", "a.notlocal",
        "svc.cluster.local.evil.example", "127.0.0.1.evil.example", "192.0.2.2.nip.example",
        "192.0.2", "[::1].evil.example", "evil%2eexample", "evil%2Eexample.local",
        "evil.local:80:1", "evil.example/.local", "", ":8080", "."}) {
    EXPECT_FALSE(IsAllowed(hosts, host)) << host;
  }
}

TEST(AllowedHosts, NamesThatTheOperatorGivesAreInAnyCaseAndAtAnyPort) {
  AllowedHosts hosts;
  for (const char* name : {"LLM.example.org.", "192.0.2.2", "[2001:db8::A]"}) {
    const auto read = ReadAllowedHost(name);
    ASSERT_TRUE(read.ok()) << read.status();
    hosts.names.push_back(*read);
  }
  for (const char* host : {"llm.example.org", "LLM.Example.Org:8443", "llm.example.org.:1",
                           "192.0.2.2:8080", "[2001:DB8::a]:80", "localhost"}) {
    EXPECT_TRUE(IsAllowed(hosts, host)) << host;
  }
  for (const char* host : {"example.org", "a.llm.example.org", "llm.example.org.evil.example",
                           "192.0.2.3", "baton-router"}) {
    EXPECT_FALSE(IsAllowed(hosts, host)) << host;
  }
}

TEST(AllowedHosts, AStarIsAnyHost) {
  const AllowedHosts hosts{.names = {*ReadAllowedHost("*")}};
  EXPECT_TRUE(IsAllowed(hosts, "evil.example:8080"));
  EXPECT_FALSE(IsAllowed(hosts, "evil example"));
}

TEST(AllowedHosts, WhatIsNoNameIsRefusedWithItsForm) {
  for (const char* text : {"", "llm.example.org:8080", "192.0.2.1:", "2001:db8::1", "http://a",
                           "a/b", "*.example.org", "a b", "[::1"}) {
    const auto read = ReadAllowedHost(text);
    ASSERT_TRUE(absl::IsInvalidArgument(read.status())) << text;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("without a port")) << text;
  }
}

}  // namespace
}  // namespace baton
