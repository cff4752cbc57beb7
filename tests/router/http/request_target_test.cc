#include "router/http/request_target.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(RequestTargetTest, EachFormOfATargetHasItsPathAndQuery) {
  const struct {
    const char* target;
    const char* path;
    const char* query;
    const char* authority = "";
  } cases[] = {
      {"/", "/", ""},
      {"/v1/models", "/v1/models", ""},
      {"/a%2Fb%20%c3%A9", "/a/b \xc3\xa9", ""},
      {"/%41", "/A", ""},
      {"/a?b=%20&c?d", "/a", "b=%20&c?d"},
      {"/?", "/", ""},
      {"//x/y", "//x/y", ""},
      {"http://host:80/a?b", "/a", "b", "host:80"},
      {"HTTPS://host", "/", "", "host"},
      {"http://host?q@r", "/", "q@r", "host"},
      {"http://[::1]:80/a@b", "/a@b", "", "[::1]:80"},
  };
  for (const auto& [target, path, query, authority] : cases) {
    const auto parsed = ParseRequestTarget("GET", target);
    ASSERT_TRUE(parsed.ok()) << target;
    EXPECT_EQ(parsed->path, path) << target;
    EXPECT_EQ(parsed->query, query) << target;
    EXPECT_EQ(parsed->authority, authority) << target;
  }
  EXPECT_EQ(ParseRequestTarget("OPTIONS", "*")->path, "*");
}

TEST(RequestTargetTest, AQueryIsItsNamesAndValues) {
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  const std::pair<const char*, Parameters> cases[] = {
      {"", {}},
      {"&&", {}},
      {"a=b&c=d", {{"a", "b"}, {"c", "d"}}},
      {"a=1&a=2", {{"a", "1"}, {"a", "2"}}},
      {"a", {{"a", ""}}},
      {"a=", {{"a", ""}}},
      {"=b", {{"", "b"}}},
      {"a=b=c", {{"a", "b=c"}}},
      {"a+b=c%20d%2B%26", {{"a b", "c d+&"}}},
  };
  for (const auto& [query, expected] : cases) {
    const auto parameters = ParseQuery(query);
    ASSERT_TRUE(parameters.ok()) << query;
    EXPECT_EQ(*parameters, expected) << query;
  }
  for (const char* query : {"a=%", "a=%4", "%zz=b", "a=%00"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseQuery(query).status())) << query;
  }
}

TEST(RequestTargetTest, WhatIsNoTargetIsRefused) {
  for (const char* target : {"*",
                             "",
                             "a",
                             "host:80",
                             "ftp://host/",
                             "http:///a",
                             "http://",
                             "http://a@b/",
                             "http://a:b@c/",
                             "http://a b/",
                             "http://a:b/",
                             "http://:80/",
                             "http://?q",
                             "/%",
                             "/%4",
                             "/%4g",
                             "/a%",
                             "/%00",
                             "/a#b",
                             "/a\\b"}) {
    EXPECT_FALSE(ParseRequestTarget("GET", target).ok()) << target;
  }
}

}  // namespace
}  // namespace baton
