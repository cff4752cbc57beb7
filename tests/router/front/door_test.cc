#include "router/front/door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "common/rpc/status.h"
#include "router/tenants/api_key.h"

namespace baton {
namespace {

using testing::HasSubstr;

constexpr char kMethod[] = "/baton.v1.GenerationService/Generate";
constexpr char kNear[] = "ipv4:127.0.0.1:50000";
constexpr char kFar[] = "ipv4:10.0.0.7:50000";

class DoorTest : public testing::Test {
 protected:
  DoorTest() {
    KeysFile file;
    file.tenants["acme"] = {.streams = 3};
    file.tenants["ops"] = {.operates = true};
    file.keys = {{.hash = HashApiKey(key_), .tenant = "acme"},
                 {.hash = HashApiKey(operates_), .tenant = "ops"},
                 {.hash = HashApiKey(revoked_), .tenant = "acme", .revoked = true}};
    EXPECT_TRUE(WriteKeysFile(path_, file).ok());
    keys_ = *ApiKeys::Load(path_, metrics_, absl::Minutes(1));
  }
  ~DoorTest() override { unlink(path_.c_str()); }

  Door MakeDoor(bool needs_identity) {
    return Door(keys_.get(), {.needs_identity = needs_identity}, metrics_);
  }
  Door::Shown WithKey(const std::string& peer, bool encrypted = false) const {
    return {.peer = peer, .encrypted = encrypted, .authorization = {"Bearer " + key_}};
  }
  static Door::Shown WithCertificate(const std::string& name) {
    return {.peer = kFar, .encrypted = true, .certificate_name = name};
  }
  // Why the caller was refused, or its tenant.
  static std::string Outcome(Door& door, const Door::Shown& shown) {
    const auto caller = door.Identify(shown, kMethod);
    EXPECT_TRUE(caller.ok() || absl::IsUnauthenticated(caller.status())) << caller.status();
    return caller.ok() ? caller->tenant : ErrorReason(caller.status());
  }

  const std::string path_ = testing::TempDir() + "door_test.toml";
  const std::string key_ = MakeApiKey();
  const std::string revoked_ = MakeApiKey();
  const std::string operates_ = MakeApiKey();
  Metrics metrics_{"router"};
  std::unique_ptr<ApiKeys> keys_;
};

TEST_F(DoorTest, AKeyIsTakenOnlyWhereNobodyElseReadsIt) {
  for (const bool needs_identity : {false, true}) {
    Door door = MakeDoor(needs_identity);
    for (const char* near : {kNear, "ipv6:%5B::1%5D:50000", "unix:/run/baton", "unix:"}) {
      EXPECT_EQ(Outcome(door, WithKey(near)), "acme") << near;
    }
    EXPECT_EQ(Outcome(door, WithKey(kFar, /*encrypted=*/true)), "acme");
    for (const char* far : {kFar, "ipv6:%5B2001:db8::1%5D:50000", ""}) {
      EXPECT_EQ(Outcome(door, WithKey(far)), "API_KEY_UNPROTECTED") << far;
    }
  }
}

TEST_F(DoorTest, WithInsecureKeysAreTakenInPlainTextButNoOperators) {
  Door door(keys_.get(), {.needs_identity = true, .insecure = true}, metrics_);
  const auto with = [&](const std::string& key, const std::string& peer, bool encrypted) {
    Door::Shown shown = WithKey(peer, encrypted);
    shown.authorization = {"Bearer " + key};
    return Outcome(door, shown);
  };
  for (const char* far : {kFar, "ipv6:%5B2001:db8::1%5D:50000"}) {
    EXPECT_EQ(with(key_, far, false), "acme") << far;
    EXPECT_EQ(with(revoked_, far, false), "API_KEY_REVOKED") << far;
    EXPECT_EQ(with(MakeApiKey(), far, false), "API_KEY_UNKNOWN") << far;
    EXPECT_EQ(with(operates_, far, false), "API_KEY_UNPROTECTED") << far;
    EXPECT_EQ(with(operates_, far, true), "ops") << far;
  }
  EXPECT_EQ(with(operates_, kNear, false), "ops");
  for (const char* peer : {kNear, kFar}) EXPECT_EQ(Outcome(door, {.peer = peer}), "NO_IDENTITY");
}

TEST_F(DoorTest, TheTenantIsTheKeysOrElseTheCertificates) {
  Door door = MakeDoor(true);
  EXPECT_EQ(Outcome(door, WithCertificate("corp")), "corp");
  Door::Shown both = WithKey(kFar, /*encrypted=*/true);
  both.certificate_name = "corp";
  EXPECT_EQ(Outcome(door, both), "acme");
  both.authorization = {"Bearer " + MakeApiKey()};
  EXPECT_EQ(Outcome(door, both), "API_KEY_UNKNOWN") << "a wrong key is never passed over";
  both.authorization = {"Bearer " + revoked_};
  EXPECT_EQ(Outcome(door, both), "API_KEY_REVOKED");
}

TEST_F(DoorTest, TheFileTellsWhatADeclaredTenantMayDo) {
  Door door = MakeDoor(true);
  const auto caller = door.Identify(WithKey(kNear), kMethod);
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_TRUE(caller->declared);
  EXPECT_EQ(caller->limits.streams, 3u);
  const auto other = door.Identify(WithCertificate("corp"), kMethod);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE(other->declared);
}

TEST_F(DoorTest, WhoShowsNothingIsAnonymousWhereNoIdentityIsNeeded) {
  const Door::Shown nothing{.peer = kFar, .encrypted = true};
  Door open = MakeDoor(false), closed = MakeDoor(true);
  EXPECT_EQ(Outcome(open, nothing), "");
  EXPECT_EQ(Outcome(closed, nothing), "NO_IDENTITY");
}

TEST_F(DoorTest, ACallThroughAProxyNeedsAnIdentityUnlessEverybodyIsServed) {
  const Door::Shown nothing{.peer = kNear, .proxied = true};
  Door::Shown key = WithKey(kNear), certificate = WithCertificate("corp");
  key.proxied = certificate.proxied = true;
  for (const bool insecure : {false, true}) {
    Door door(keys_.get(), {.insecure = insecure}, metrics_);
    EXPECT_EQ(Outcome(door, nothing), "NO_IDENTITY") << insecure;
    EXPECT_EQ(Outcome(door, key), "acme") << "the hop from the proxy is on this machine";
    EXPECT_EQ(Outcome(door, certificate), "corp");
    EXPECT_EQ(Outcome(door, {.peer = kNear}), "");
  }
  Door without_keys(nullptr, {}, metrics_), everybody(nullptr, {.insecure = true}, metrics_);
  EXPECT_EQ(Outcome(without_keys, nothing), "NO_IDENTITY");
  EXPECT_EQ(Outcome(everybody, nothing), "");
  const std::string why(without_keys.Identify(nothing, kMethod).status().message());
  EXPECT_THAT(why, HasSubstr("came through a reverse proxy"));
  EXPECT_THAT(why, HasSubstr("--api-keys and show a key, or give it --insecure"));
}

TEST_F(DoorTest, ACallerIsIdentifiedByAKeyOrACertificateAlone) {
  Door door = MakeDoor(false);
  EXPECT_TRUE(door.Identify(WithKey(kNear), kMethod)->identified);
  EXPECT_TRUE(door.Identify(WithCertificate("corp"), kMethod)->identified);
  EXPECT_TRUE(door.Identify(WithCertificate(""), kMethod)->identified) << "an operator";
  EXPECT_FALSE(door.Identify(Door::Shown{.peer = kNear}, kMethod)->identified);
}

TEST_F(DoorTest, WhatShowsNoKeyOrDifferentOnesIsMalformed) {
  Door door = MakeDoor(false);
  Door::Shown shown = WithKey(kNear);
  const std::string good = shown.authorization[0];
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{key_},
                                             {"Basic " + key_},
                                             {"Bearer" + key_},
                                             {"Bearer"},
                                             {"Bearer  "},
                                             {""},
                                             {"", " "},
                                             {good, "Bearer " + revoked_},
                                             {good, "Basic x"},
                                             {good, "Bearer"}}) {
    shown.authorization = wrong;
    EXPECT_EQ(Outcome(door, shown), "API_KEY_MALFORMED") << wrong[0];
  }
}

TEST_F(DoorTest, OneKeyMayBeShownTwiceAndWithAnyBlanks) {
  Door door = MakeDoor(false);
  Door::Shown shown = WithKey(kNear);
  const std::string good = shown.authorization[0];
  for (const std::vector<std::string>& right :
       std::vector<std::vector<std::string>>{{"bearer " + key_},
                                             {"Bearer   " + key_ + " "},
                                             {good, good},
                                             {"", good},
                                             {good, "BEARER  " + key_}}) {
    shown.authorization = right;
    EXPECT_EQ(Outcome(door, shown), "acme") << right[0];
  }
}

TEST_F(DoorTest, WithoutAKeysFileNoKeyIsKnown) {
  Door door(nullptr, {}, metrics_);
  EXPECT_EQ(Outcome(door, WithKey(kNear)), "API_KEY_UNKNOWN");
  EXPECT_EQ(Outcome(door, {.peer = kNear}), "");
}

TEST_F(DoorTest, AnOperatorIsKnownAndIsNoTenant) {
  Door door = MakeDoor(true);
  const auto caller = door.Identify(WithCertificate(""), kMethod);
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->tenant, "");
  EXPECT_FALSE(caller->declared);
}

TEST_F(DoorTest, RefusalsAreCountedByReasonAndTenantAndTheAuditLogHasALineWithoutTheKey) {
  Door door = MakeDoor(true);
  Door::Shown unknown = WithKey(kNear), revoked = WithKey(kNear);
  const std::string secret = MakeApiKey();
  unknown.authorization = {"Bearer " + secret};
  revoked.authorization = {"Bearer " + revoked_};
  testing::internal::CaptureStderr();
  EXPECT_EQ(Outcome(door, revoked), "API_KEY_REVOKED");
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Outcome(door, unknown), "API_KEY_UNKNOWN");
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string page = metrics_.Scrape();
  EXPECT_THAT(page, HasSubstr("reason=\"API_KEY_UNKNOWN\",tenant=\"\",model_name=\"\","
                              "role=\"router\"} 50"));
  EXPECT_THAT(page, HasSubstr("reason=\"API_KEY_REVOKED\",tenant=\"acme\",model_name=\"\","
                              "role=\"router\"} 1"));
  EXPECT_THAT(log,
              HasSubstr(absl::StrCat("audit: refused method='", kMethod, "' peer='acme' address='",
                                     kNear, "' reason='API_KEY_REVOKED'")));
  EXPECT_THAT(log,
              HasSubstr(absl::StrCat("peer='' address='", kNear, "' reason='API_KEY_UNKNOWN'")));
  for (const std::string& key : {secret, revoked_}) {
    EXPECT_EQ(log.find(key.substr(6)), std::string::npos);
  }
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 50) << "callers fill the log";
}

}  // namespace
}  // namespace baton
