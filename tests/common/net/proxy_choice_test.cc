#include "common/net/proxy_choice.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

using Variables = std::map<std::string, std::string>;

EnvironmentReader ReaderOf(const Variables& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

ProxyChoice Choose(const std::string& address, const Variables& variables) {
  return ChooseProxy(address, ReaderOf(variables));
}

bool IsProxied(const std::string& address, const std::string& no_proxy) {
  return !Choose(address, {{"http_proxy", "http://proxy:3128"}, {"no_proxy", no_proxy}})
              .url.empty();
}

TEST(ChooseProxy, TheFirstOfTheVariablesThatGrpcReadsNamesTheProxy) {
  const Variables all = {{"grpc_proxy", "http://g:1"}, {"https_proxy", "http://s:2"},
                         {"http_proxy", "http://h:3"}, {"all_proxy", "http://a:4"},
                         {"HTTP_PROXY", "http://H:5"}, {"HTTPS_PROXY", "http://S:6"},
                         {"GRPC_PROXY", "http://G:7"}, {"ALL_PROXY", "http://A:8"}};
  Variables left = all;
  for (const auto& [variable, url] :
       {std::pair("grpc_proxy", "http://g:1"), std::pair("https_proxy", "http://s:2"),
        std::pair("http_proxy", "http://h:3")}) {
    const ProxyChoice choice = Choose("router.example:50051", left);
    EXPECT_EQ(choice.variable, variable);
    EXPECT_EQ(choice.url, url);
    left.erase(variable);
  }
  EXPECT_EQ(Choose("router.example:50051", left).variable, "") << "gRPC reads none of the others";
  EXPECT_EQ(Choose("router.example:50051", {{"grpc_proxy", ""}, {"http_proxy", "http://h:3"}}).url,
            "")
      << "an empty value means no proxy";
}

TEST(ChooseProxy, ThisMachineIsReachedDirectly) {
  for (const char* address :
       {"127.0.0.1:1", "127.255.255.254:1", "127.1:1", "[::1]:1", "[0:0::1]:1", "localhost:1",
        "LocalHost:1", "localhost.:1", "a.localhost:1", "dns:///localhost:1", "ipv4:127.0.0.1:1",
        "ipv6:[::1]:1", "[::ffff:127.0.0.1]:1", "0.0.0.0:1", "[::]:1", "unix:/run/baton.sock",
        "unix:///run/baton.sock"}) {
    EXPECT_FALSE(IsProxied(address, "")) << address;
  }
  for (const char* address : {"128.0.0.1:1", "[::2]:1", "[2001:db8::1]:1", "localhost.example:1",
                              "notlocalhost:1", "dns:///router:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_TRUE(IsProxied(address, "")) << address;
  }
}

TEST(ChooseProxy, NoProxyListsHostsAsCurlReadsThem) {
  struct Row {
    const char* no_proxy;
    std::vector<std::string> direct;
    std::vector<std::string> proxied;
  };
  for (const Row& row : std::vector<Row>{
           {"*", {"a.example:1", "10.0.0.1:1", "[2001:db8::1]:1"}, {}},
           {"router.example",
            {"router.example:1", "ROUTER.Example:1", "router.example.:1", "a.router.example:1"},
            {"router.example.org:1", "outer.example:1", "10.0.0.1:1"}},
           {".router.example", {"router.example:1", "a.router.example:1"}, {"router.examples:1"}},
           {"first.example, second.example\tthird.example,,",
            {"first.example:1", "second.example:1", "third.example:1"},
            {"fourth.example:1"}},
           {"10.1.2.3", {"10.1.2.3:1"}, {"10.1.2.4:1", "10.1.2.30:1", "110.1.2.31:1"}},
           {"10.0.0.0/8", {"10.0.0.0:1", "10.255.255.255:1"}, {"11.0.0.0:1", "9.255.255.255:1"}},
           {"192.168.128.0/17", {"192.168.128.1:1"}, {"192.168.127.255:1"}},
           {"10.0.0.1/32", {"10.0.0.1:1"}, {"10.0.0.0:1"}},
           {"0.0.0.0/0", {"8.8.8.8:1", "[::ffff:8.8.8.8]:1"}, {"[2001:db8::1]:1", "a.example:1"}},
           {"2001:db8::1", {"[2001:db8::1]:1", "[2001:db8:0:0::1]:1"}, {"[2001:db8::2]:1"}},
           {"[2001:db8::1]", {"[2001:db8::1]:1"}, {"[2001:db8::2]:1"}},
           {"2001:db8::/32", {"[2001:db8:ffff::1]:1"}, {"[2001:db9::1]:1", "32.1.13.184:1"}},
           {"fe80::/10", {"[febf::1]:1"}, {"[fec0::1]:1"}},
           // None of these is a range.
           {"10.0.0.0/33 10.0.0.0/ 10.0.0.0/-1 10.0.0.0/a /8 2001:db8::/129",
            {},
            {"10.0.0.1:1", "[2001:db8::1]:1"}},
       }) {
    for (const std::string& address : row.direct) {
      EXPECT_FALSE(IsProxied(address, row.no_proxy)) << address << " with " << row.no_proxy;
    }
    for (const std::string& address : row.proxied) {
      EXPECT_TRUE(IsProxied(address, row.no_proxy)) << address << " with " << row.no_proxy;
    }
  }
}

TEST(ChooseProxy, WhatGrpcReachesDirectlyByItselfIsNotCalledProxied) {
  EXPECT_FALSE(IsProxied("router.example:1", "outer.example"));
  EXPECT_FALSE(IsProxied("10.1.2.30:1", "0")) << "gRPC compares ends of texts";
}

TEST(ChooseProxy, TheListIsTheFirstThatIsSet) {
  const Variables proxy = {{"http_proxy", "http://proxy:3128"}};
  const auto proxied = [&](Variables lists) {
    lists.insert(proxy.begin(), proxy.end());
    return !Choose("a.example:1", lists).url.empty();
  };
  EXPECT_FALSE(proxied({{"NO_PROXY", "a.example"}}));
  EXPECT_FALSE(proxied({{"no_grpc_proxy", "a.example"}, {"no_proxy", ""}}));
  EXPECT_TRUE(proxied({{"no_grpc_proxy", ""}, {"no_proxy", "a.example"}}));
  EXPECT_TRUE(proxied({{"no_proxy", ""}, {"NO_PROXY", "a.example"}}));
}

TEST(ChooseProxy, UserAndPasswordAreNotShown) {
  for (const auto& [value, url, shown] : std::vector<std::array<std::string, 3>>{
           {"http://proxy:3128/", "http://proxy:3128", "http://proxy:3128"},
           {"proxy:3128", "http://proxy:3128", "http://proxy:3128"},
           {"http://me:secret@proxy:3128", "http://me:secret@proxy:3128", "http://proxy:3128"},
           {"me:secret@proxy:3128", "http://me:secret@proxy:3128", "http://proxy:3128"},
           {"http://[2001:db8::1]:3128", "http://[2001:db8::1]:3128", "http://[2001:db8::1]:3128"},
           // gRPC cannot use these.
           {"socks5://me:secret@proxy:1080", "", "socks5://proxy:1080"},
           {"https://proxy:3128", "", "https://proxy:3128"},
           {"http://me:se@cret@proxy:3128", "", "http://proxy:3128"},
           {"http://me:se%40cret@proxy:3128", "", "http://proxy:3128"},
           {"http://me:secret@", "", "http://"},
       }) {
    const ProxyChoice choice = Choose("a.example:1", {{"https_proxy", value}});
    EXPECT_EQ(choice.variable, "https_proxy") << value;
    EXPECT_EQ(choice.url, url) << value;
    EXPECT_EQ(choice.shown_url, shown) << value;
  }
}

}  // namespace
}  // namespace baton
