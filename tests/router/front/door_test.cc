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

constexpr char kNear[] = "ipv4:127.0.0.1:50000";
constexpr char kFar[] = "ipv4:10.0.0.7:50000";

class DoorTest : public testing::Test {
 protected:
  DoorTest() {
    KeysFile file;
    file.tenants["acme"] = {.streams = 3};
    file.keys = {{.hash = HashApiKey(key_), .tenant = "acme"}};
    EXPECT_TRUE(WriteKeysFile(path_, file).ok());
    keys_ = *ApiKeys::Load(path_, metrics_, absl::Minutes(1));
  }
  ~DoorTest() override { unlink(path_.c_str()); }

  Door MakeDoor(bool needs_identity) { return Door(keys_.get(), needs_identity, metrics_); }
  Door::Shown WithKey(const std::string& peer, bool encrypted = false) const {
    return {.peer = peer,
            .encrypted = encrypted,
            .authorization = {"Bearer " + key_},
            .certificate_name = {}};
  }
  // Why the caller was refused, or its tenant.
  static std::string Outcome(Door& door, const Door::Shown& shown) {
    const auto caller = door.Identify(shown);
    EXPECT_TRUE(caller.ok() || absl::IsUnauthenticated(caller.status())) << caller.status();
    return caller.ok() ? caller->tenant : ErrorReason(caller.status());
  }

  const std::string path_ = testing::TempDir() + "door_test.toml";
  const std::string key_ = MakeApiKey();
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

TEST_F(DoorTest, TheTenantIsTheKeysOrElseTheCertificates) {
  Door door = MakeDoor(true);
  EXPECT_EQ(
      Outcome(door,
              {.peer = kFar, .encrypted = true, .authorization = {}, .certificate_name = "corp"}),
      "corp");
  Door::Shown both = WithKey(kFar, /*encrypted=*/true);
  both.certificate_name = "corp";
  EXPECT_EQ(Outcome(door, both), "acme");
  both.authorization = {"Bearer " + MakeApiKey()};
  EXPECT_EQ(Outcome(door, both), "API_KEY_UNKNOWN") << "a wrong key is never passed over";
}

TEST_F(DoorTest, TheFileTellsWhatADeclaredTenantMayDo) {
  Door door = MakeDoor(true);
  const auto caller = door.Identify(WithKey(kNear));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_TRUE(caller->declared);
  EXPECT_EQ(caller->limits.streams, 3u);
  const auto other = door.Identify(Door::Shown{
      .peer = kFar, .encrypted = true, .authorization = {}, .certificate_name = "corp"});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE(other->declared);
}

TEST_F(DoorTest, WhoShowsNothingIsAnonymousWhereNoIdentityIsNeeded) {
  const Door::Shown nothing{
      .peer = kFar, .encrypted = true, .authorization = {}, .certificate_name = {}};
  Door open = MakeDoor(false), closed = MakeDoor(true);
  EXPECT_EQ(Outcome(open, nothing), "");
  EXPECT_EQ(Outcome(closed, nothing), "NO_IDENTITY");
}

TEST_F(DoorTest, OtherHeadersThanOneBearerAreMalformed) {
  Door door = MakeDoor(false);
  Door::Shown shown = WithKey(kNear);
  const std::string good = shown.authorization[0];
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {key_}, {"Basic " + key_}, {"Bearer  " + key_}, {"Bearer"}, {""}, {good, good}}) {
    shown.authorization = wrong;
    EXPECT_EQ(Outcome(door, shown), "API_KEY_MALFORMED") << wrong[0];
  }
  shown.authorization = {"bearer " + key_};
  EXPECT_EQ(Outcome(door, shown), "acme");
}

TEST_F(DoorTest, WithoutAKeysFileNoKeyIsKnown) {
  Door door(nullptr, false, metrics_);
  EXPECT_EQ(Outcome(door, WithKey(kNear)), "API_KEY_UNKNOWN");
  EXPECT_EQ(
      Outcome(door,
              {.peer = kNear, .encrypted = false, .authorization = {}, .certificate_name = {}}),
      "");
}

TEST_F(DoorTest, RefusalsAreCountedByReasonAndTheLogHasALineWithoutTheKey) {
  Door door = MakeDoor(true);
  const std::string secret = MakeApiKey();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 50; ++i) {
    Door::Shown shown = WithKey(kNear);
    shown.authorization = {"Bearer " + secret};
    EXPECT_EQ(Outcome(door, shown), "API_KEY_UNKNOWN");
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(metrics_.Scrape(),
              HasSubstr("reason=\"API_KEY_UNKNOWN\",model_name=\"\",role=\"router\"} 50"));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("refused ", kNear, ": API_KEY_UNKNOWN: ")));
  EXPECT_EQ(log.find(secret.substr(6)), std::string::npos);
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 50) << "callers fill the log";
}

}  // namespace
}  // namespace baton
