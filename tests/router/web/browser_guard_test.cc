#include "router/web/browser_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::HasSubstr;

HttpRequest RequestTo(const std::string& host, const std::string& origin) {
  HttpRequest head{.method = "POST", .path = "/v1/completions"};
  head.headers.push_back({"host", host});
  if (!origin.empty()) head.headers.push_back({"origin", origin});
  return head;
}

absl::Status Check(const std::string& host, const std::string& origin = "",
                   const std::vector<std::string>& origins = {}) {
  return CheckNoForeignPage(RequestTo(host, origin), {}, origins);
}

TEST(BrowserGuard, ThisMachineMayBeCalledByItsLoopbackNames) {
  for (const char* host :
       {"localhost", "LocalHost:8080", "127.0.0.1:8080", "127.0.0.1", "[::1]", "[::1]:8080"}) {
    EXPECT_TRUE(Check(host).ok()) << host << ": " << Check(host);
  }
}

// A page's server can make its own name mean 127.0.0.1, and then call this router as that name.
TEST(BrowserGuard, ANameThatOnlyMeansThisMachineIsRefused) {
  for (const char* host : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example",
                           "localhost.evil.example:8080", "[::1].evil.example", "[::2]:8080",
                           "127.0.0.2", "127.0.0.1:80:evil"}) {
    EXPECT_TRUE(absl::IsPermissionDenied(Check(host))) << host;
  }
}

TEST(BrowserGuard, OnlyItsOwnPagesAndAllowedOnesMayCall) {
  EXPECT_TRUE(Check("localhost:8080", "http://localhost:8080").ok());
  for (const char* origin : {"https://evil.example", "http://localhost:3000", "null",
                             "http://localhost:8080.evil.example", "localhost:8080"}) {
    EXPECT_TRUE(absl::IsPermissionDenied(Check("localhost:8080", origin))) << origin;
  }
  EXPECT_TRUE(Check("localhost", "https://a.example", {"https://a.example"}).ok());
  EXPECT_TRUE(Check("localhost", "https://a.example", {"*"}).ok());
  EXPECT_FALSE(Check("localhost", "https://b.example", {"https://a.example"}).ok());
}

TEST(BrowserGuard, ARefusedHostIsToldWhichWouldDoAndWhichFlagsAllowMore) {
  const std::string by_default(Check("evil.example:8080").message());
  EXPECT_THAT(by_default, HasSubstr("must be localhost, 127.0.0.1 or [::1], is evil.example:8080"));
  EXPECT_THAT(by_default, HasSubstr("--http-allow-host"));
  EXPECT_THAT(by_default, HasSubstr("--api-keys"));
  const AllowedHosts trusted{.trusted_network = true};
  const absl::Status refused = CheckNoForeignPage(RequestTo("evil.example", ""), trusted, {});
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("an IP address"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--http-allow-host"));
}

TEST(BrowserGuard, OnATrustedNetworkOriginsAreCheckedAllTheSame) {
  const AllowedHosts trusted{.trusted_network = true};
  const auto check = [&](const std::string& host, const std::string& origin) {
    return CheckNoForeignPage(RequestTo(host, origin), trusted, {"https://a.example"});
  };
  EXPECT_TRUE(check("192.0.2.2:8080", "").ok());
  EXPECT_TRUE(check("192.0.2.2:8080", "http://192.0.2.2:8080").ok());
  EXPECT_TRUE(check("192.0.2.2:8080", "https://a.example").ok());
  for (const char* origin : {"https://evil.example", "http://192.0.2.3:8080", "null"}) {
    EXPECT_TRUE(absl::IsPermissionDenied(check("192.0.2.2:8080", origin))) << origin;
  }
}

TEST(BrowserGuard, ThePageIsForLoopbackNamesAndForNoOtherOrigin) {
  EXPECT_TRUE(CheckPageOfThisMachine(RequestTo("localhost:8080", "")).ok());
  EXPECT_TRUE(CheckPageOfThisMachine(RequestTo("127.0.0.1", "http://127.0.0.1")).ok());
  for (const auto& [host, origin] : {std::pair("desk.local", ""), std::pair("192.0.2.2", ""),
                                     std::pair("localhost", "https://evil.example")}) {
    EXPECT_TRUE(absl::IsPermissionDenied(CheckPageOfThisMachine(RequestTo(host, origin)))) << host;
  }
}

TEST(BrowserGuard, ABodyIsPlain) {
  const auto check = [](std::vector<std::string> codings) {
    HttpRequest head;
    for (std::string& coding : codings) {
      head.headers.push_back({"content-encoding", std::move(coding)});
    }
    return CheckContentEncoding(head);
  };
  for (const std::vector<std::string>& codings : std::vector<std::vector<std::string>>{
           {}, {""}, {"identity"}, {"Identity , identity"}, {"identity", ""}}) {
    EXPECT_TRUE(check(codings).ok());
  }
  for (const char* coding : {"gzip", "br", "deflate", "x-unknown", "identity, gzip", "none"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(check({coding}))) << coding;
    EXPECT_TRUE(absl::IsInvalidArgument(check({"identity", coding}))) << coding;
  }
  EXPECT_EQ(check({"gzip"}).message(),
            "Content-Encoding gzip is not supported; send the body uncompressed, without "
            "Content-Encoding");
}

TEST(BrowserGuard, ABodyIsJson) {
  const auto check = [](const char* type, bool needed) {
    HttpRequest head;
    if (*type != '\0') head.headers.push_back({"content-type", type});
    return CheckContentType(head, needed).ok();
  };
  EXPECT_TRUE(check("application/json", true));
  EXPECT_TRUE(check("Application/JSON ; charset=utf-8", true));
  EXPECT_FALSE(check("text/plain", false));
  EXPECT_FALSE(check("application/x-www-form-urlencoded", false));
  EXPECT_FALSE(check("application/jsonx", false));
  EXPECT_FALSE(check("", true));
  EXPECT_TRUE(check("", false));
}

TEST(BrowserGuard, ABodyIsUtf8) {
  const auto check = [](const std::string& type) {
    return CheckContentType({.method = "POST", .path = "/", .headers = {{"content-type", type}}},
                            /*needed=*/true);
  };
  for (const char* rest : {"", ";", "; charset=UTF-8", ";charset=\"utf-8\"", "; charset=utf8",
                           "; charset=US-ASCII", "; odd=utf-16", "; profile=x; charset=utf-8"}) {
    EXPECT_TRUE(check(std::string("application/json") + rest).ok()) << rest;
  }
  for (const char* rest : {"; charset=utf-16", "; charset=\"UTF-16LE\"", ";Charset=iso-8859-1",
                           "; charset=", "; profile=x; charset=windows-1252"}) {
    const absl::Status status = check(std::string("application/json") + rest);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << rest;
    EXPECT_NE(status.message().find("send the body as UTF-8"), std::string::npos) << rest;
  }
}

}  // namespace
}  // namespace baton
