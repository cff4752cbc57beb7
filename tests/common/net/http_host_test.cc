#include "common/net/http_host.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(HttpHost, AHostWithOrWithoutAPortIsRead) {
  const struct {
    const char* text;
    const char* host;
    bool numeric;
  } cases[] = {
      {"localhost", "localhost", false},
      {"router.example:8080", "router.example", false},
      {"a_b-c.example:", "a_b-c.example", false},
      {"a%2Fb~!$&'()*+;=", "a%2Fb~!$&'()*+;=", false},
      {"127.0.0.1", "127.0.0.1", true},
      {"127.0.0.1:65535", "127.0.0.1", true},
      {"[::1]", "[::1]", true},
      {"[2001:db8::1]:0", "[2001:db8::1]", true},
      {"127.1", "127.1", false},
      {"1.2.3.4.5", "1.2.3.4.5", false},
  };
  for (const auto& [text, host, numeric] : cases) {
    EXPECT_TRUE(IsHttpHost(text)) << text;
    EXPECT_EQ(std::string(WithoutPort(text)), host) << text;
    EXPECT_EQ(IsNumericHost(text), numeric) << text;
  }
}

TEST(HttpHost, WhatIsNoHostIsNotRead) {
  for (const char* text : {"",
                           ":80",
                           "127.0.0.1:80:evil",
                           "127.0.0.1:8o",
                           "a:65536",
                           "a:000080",
                           "a:-1",
                           "a b",
                           "a/b",
                           "a,b",
                           "a@b",
                           "a#b",
                           "a?b",
                           "a\\b",
                           "a\"b",
                           "a<b",
                           "a%",
                           "a%2",
                           "a%2g",
                           "a\tb",
                           "\xc3\xa9",
                           "::1",
                           "[::1",
                           "[]",
                           "[]:80",
                           "[::1]80",
                           "[::1].evil",
                           "[::1]:x",
                           "[127.0.0.1]",
                           "[fe80::1%25eth0]",
                           "[v1.a]",
                           "[::1]]",
                           "[[::1]]"}) {
    EXPECT_FALSE(IsHttpHost(text)) << text;
  }
}

}  // namespace
}  // namespace baton
