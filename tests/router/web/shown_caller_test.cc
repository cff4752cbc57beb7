#include "router/web/shown_caller.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "router/front/client_identity.h"
#include "router/tenants/api_key.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two doors: one knows keys, and one does not.
class ShownCallerTest : public testing::Test {
 protected:
  ShownCallerTest() {
    const KeysFile file{.tenants = {{"acme", {}}},
                        .keys = {{.hash = HashApiKey(MakeApiKey()), .tenant = "acme"}}};
    auto keys =
        ApiKeys::Load(folder_.File("keys.toml", FormatKeysFile(file)), metrics_, absl::Minutes(1));
    EXPECT_TRUE(keys.ok()) << keys.status();
    keys_ = *std::move(keys);
  }

  // A request on a connection whose certificate has that role.
  static HttpRequest RequestOf(Role role, std::vector<HttpHeader> headers) {
    HttpRequest head{.method = "GET", .path = "/", .headers = std::move(headers)};
    head.client.address = "ipv4:127.0.0.1:50000";
    head.client.certificate = Peer{.role = role, .trust_domain = "fleet.test", .name = "n"};
    return head;
  }
  static HttpRequest PlainRequest(std::vector<HttpHeader> headers) {
    HttpRequest head = RequestOf(Role::kClient, std::move(headers));
    head.client.certificate.reset();
    return head;
  }

  TemporaryFolder folder_{"shown_caller"};
  Metrics metrics_{"router"};
  std::unique_ptr<ApiKeys> keys_;
  Door no_keys_{nullptr, {}, metrics_};
};

std::string BasicOf(const std::string& credentials) {
  return absl::StrCat("Basic ", absl::Base64Escape(credentials));
}

TEST_F(ShownCallerTest, AKeyComesInAnyOfThreeWays) {
  const Door door(keys_.get(), {}, metrics_);
  const HttpRequest head = PlainRequest({{"authorization", "Bearer one"},
                                         {"x-api-key", "two"},
                                         {"authorization", BasicOf("anybody:three:3")}});
  EXPECT_THAT(ShownBy(head, door).authorization,
              ElementsAre("Bearer one", "Bearer three:3", "Bearer two"));
  EXPECT_THAT(ShownBy(PlainRequest({{"x-api-key", ""}}), door).authorization, ElementsAre(""));
  EXPECT_EQ(ShownBy(head, door).peer, "ipv4:127.0.0.1:50000");
  EXPECT_THAT(ShownBy(head, no_keys_).authorization, IsEmpty()) << "clients always send some key";
}

TEST_F(ShownCallerTest, APasswordMayStandBehindSeveralBlanks) {
  const Door door(keys_.get(), {}, metrics_);
  const std::string value = "Basic  " + BasicOf("anybody:three").substr(6) + " ";
  EXPECT_THAT(ShownBy(PlainRequest({{"authorization", value}}), door).authorization,
              ElementsAre("Bearer three"));
}

TEST_F(ShownCallerTest, WhatIsNoPasswordIsShownAsItCame) {
  const Door door(keys_.get(), {}, metrics_);
  for (const std::string& value : {std::string("Basic ?"), BasicOf("no colon")}) {
    EXPECT_THAT(ShownBy(PlainRequest({{"authorization", value}}), door).authorization,
                ElementsAre(value));
  }
}

TEST_F(ShownCallerTest, APasswordIsWhatABrowserSendsByItself) {
  EXPECT_TRUE(ShowsPassword(PlainRequest({{"authorization", "basic eDp5"}})));
  EXPECT_TRUE(ShowsPassword(
      PlainRequest({{"authorization", "Bearer x"}, {"authorization", BasicOf("x:y")}})));
  EXPECT_FALSE(ShowsPassword(PlainRequest({{"authorization", "Bearer x"}, {"x-api-key", "y"}})));
}

TEST_F(ShownCallerTest, ACertificateNamesItsClient) {
  EXPECT_EQ(ShownBy(RequestOf(Role::kClient, {}), no_keys_).certificate_name, "n");
  EXPECT_EQ(ShownBy(RequestOf(Role::kOperator, {}), no_keys_).certificate_name, "");
  EXPECT_FALSE(ShownBy(RequestOf(Role::kDecode, {}), no_keys_).certificate_name.has_value());
  EXPECT_FALSE(ShownBy(PlainRequest({}), no_keys_).certificate_name.has_value());
}

TEST_F(ShownCallerTest, AReverseProxyShowsItselfByAnyOfItsHeaders) {
  for (const char* name : {"forwarded", "x-forwarded-for", "via"}) {
    EXPECT_TRUE(ShownBy(PlainRequest({{name, "203.0.113.7"}}), no_keys_).proxied) << name;
    EXPECT_TRUE(ShownBy(PlainRequest({{name, ""}}), no_keys_).proxied) << name;
  }
  EXPECT_TRUE(ShownBy(RequestOf(Role::kFront, {}), no_keys_).proxied);
  EXPECT_FALSE(ShownBy(PlainRequest({{"x-api-key", "k"}}), no_keys_).proxied);
}

TEST_F(ShownCallerTest, OnlyAFrontPassesOnWhoItsClientsAre) {
  const std::vector<HttpHeader> headers = {{kClientAddressHeader, "10.0.0.7"},
                                           {kClientCertificateHeader, "no certificate"}};
  const HttpRequest by_front = RequestOf(Role::kFront, headers);
  EXPECT_TRUE(CameByFront(by_front));
  EXPECT_EQ(ShownBy(by_front, no_keys_).address_behind_front, "10.0.0.7");
  EXPECT_TRUE(absl::IsUnauthenticated(ShownBy(by_front, no_keys_).unreadable));
  EXPECT_TRUE(absl::IsUnauthenticated(CertifiedBy(by_front).status()));
  const HttpRequest forged = RequestOf(Role::kClient, headers);
  EXPECT_FALSE(CameByFront(forged));
  EXPECT_EQ(ShownBy(forged, no_keys_).address_behind_front, "");
  EXPECT_TRUE(ShownBy(forged, no_keys_).unreadable.ok());
  EXPECT_EQ((*CertifiedBy(forged))->name, "n");
  const HttpRequest uncertified = RequestOf(Role::kFront, {});
  EXPECT_FALSE(CertifiedBy(uncertified)->has_value()) << "the front's own is not its client's";
}

}  // namespace
}  // namespace baton
