#include "common/base/http_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(HttpUrl, HasHostPortAndTheRoutesBelowV1) {
  const auto plain = ParseHttpUrl("http://127.0.0.1:8080");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_FALSE(plain->tls);
  EXPECT_EQ(plain->Authority(), "127.0.0.1:8080");
  EXPECT_EQ(plain->RoutePath("/completions"), "/v1/completions");
  const auto secure = ParseHttpUrl("https://api.example.org/base/v1/");
  ASSERT_TRUE(secure.ok()) << secure.status();
  EXPECT_TRUE(secure->tls);
  EXPECT_EQ(secure->port, 443);
  EXPECT_EQ(secure->RoutePath("/models"), "/base/v1/models");
  const auto v6 = ParseHttpUrl("http://[::1]");
  ASSERT_TRUE(v6.ok()) << v6.status();
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->Authority(), "[::1]:80");
}

TEST(HttpUrl, TakesHostAndPortWithoutASchemeAsItsCallerSpeaks) {
  for (const bool tls : {false, true}) {
    const auto url = ParseHttpUrl("127.0.0.1:8080", tls);
    ASSERT_TRUE(url.ok()) << url.status();
    EXPECT_EQ(url->tls, tls);
    EXPECT_EQ(url->Authority(), "127.0.0.1:8080");
    EXPECT_EQ(url->path, "");
    EXPECT_FALSE(ParseHttpUrl("http://127.0.0.1:8080", tls)->tls);
    EXPECT_TRUE(ParseHttpUrl("https://127.0.0.1:8080", tls)->tls);
  }
  EXPECT_EQ(ParseHttpUrl("[::1]:8080/v1")->RoutePath("/models"), "/v1/models");
}

TEST(HttpUrl, WhatIsNoneIsRefused) {
  for (const char* text :
       {"", "127.0.0.1", "ftp://a", "grpc://a:1", "http://", "http://a:b", "http://a:0x1",
        "http://a b", "http://u@a", "http://a/?q", "http://a/\r\nX: y"}) {
    EXPECT_THAT(ParseHttpUrl(text).status().ToString(), testing::HasSubstr("--http '")) << text;
  }
}

}  // namespace
}  // namespace baton
