#include "router/tenants/fleet_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "common/base/hash.h"

namespace baton {
namespace {

using testing::HasSubstr;

Caller Of(const std::string& tenant, const std::string& share = "") {
  return {.tenant = tenant, .declared = true, .limits = {.share = share}};
}

class FleetSecretTest : public testing::Test {
 protected:
  FleetSecretTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  absl::StatusOr<FleetSecret> Read(const std::string& content) const {
    std::ofstream(folder_ + "/secret") << content;
    return FleetSecret::Read(folder_ + "/secret");
  }
  const std::string folder_ = testing::TempDir() + "fleet_secret_test";
};

TEST_F(FleetSecretTest, TheSaltIsAnHmacOfTenantAndClientsSalt) {
  const auto secret = Read(std::string(64, '0') + "\n");
  ASSERT_TRUE(secret.ok()) << secret.status();
  // printf 'tenant:acme\0mine' | openssl dgst -sha256 -mac HMAC -macopt hexkey:00...00
  EXPECT_EQ(ToHex(secret->SaltFor(Of("acme"), "mine")),
            "ace3a0c4c91cf4cccf51a9066e4621fd702feb281757d9ba412e795526eb2882");
}

TEST_F(FleetSecretTest, NoTwoTenantsSharesSaltsOrSecretsMeet) {
  const FleetSecret secret = *Read(std::string(64, 'a')), other = *Read(std::string(64, 'b'));
  std::set<std::string> salts;
  size_t count = 0;
  for (const FleetSecret* each : {&secret, &other}) {
    for (const char* tenant : {"", "a", "ab", "docs"}) {
      for (const char* salt : {"", "b", "ab"}) {
        salts.insert(each->SaltFor(Of(tenant), salt));
        ++count;
      }
    }
    salts.insert(each->SaltFor(Of("a", "docs"), ""));
    ++count;
  }
  EXPECT_EQ(salts.size(), count);
  EXPECT_EQ(secret.SaltFor(Of("a", "docs"), "s"), secret.SaltFor(Of("b", "docs"), "s"));
  EXPECT_EQ(secret.SaltFor(Of("a"), "s"), Read(std::string(64, 'a'))->SaltFor(Of("a"), "s"));
  EXPECT_EQ(secret.SaltFor(Of("a"), "s").size(), 32u);
}

TEST_F(FleetSecretTest, AFileOfOtherThan64DigitsIsRefusedAndNotRepeated) {
  for (const std::string& wrong : {std::string(), std::string(63, 'a'), std::string(65, 'a'),
                                   std::string(64, 'g'), std::string(1000, 'a')}) {
    const absl::Status status = Read(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/secret: "));
    EXPECT_EQ(status.message().find("aaa"), absl::string_view::npos);
  }
}

TEST_F(FleetSecretTest, AFileThatOthersMayReadIsALineOfTheLog) {
  ASSERT_TRUE(Read(std::string(64, 'a')).ok());
  const std::string path = folder_ + "/secret";
  for (const mode_t mode : {0600, 0640, 0644}) {
    chmod(path.c_str(), mode);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(FleetSecret::Read(path).ok());
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.empty(), mode != 0644) << log;
    if (mode == 0644) {
      EXPECT_THAT(log, HasSubstr("the fleet's secret " + path + ": mode 0644"));
    }
    EXPECT_EQ(log.find("aaa"), std::string::npos);
  }
}

TEST_F(FleetSecretTest, AUsersIsMadeOnceAndIsItsOwn) {
  setenv("XDG_STATE_HOME", (folder_ + "/state").c_str(), 1);
  const auto first = FleetSecret::OfThisUser(), second = FleetSecret::OfThisUser();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->SaltFor(Of("a"), ""), second->SaltFor(Of("a"), ""));
  EXPECT_NE(first->SaltFor(Of("a"), ""), FleetSecret::Random().SaltFor(Of("a"), ""));
  struct stat state {};
  ASSERT_EQ(stat((folder_ + "/state/baton/fleet-secret").c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0600u);
  using Entries = std::filesystem::directory_iterator;
  EXPECT_EQ(std::distance(Entries(folder_ + "/state/baton"), Entries()), 1);
  setenv("XDG_STATE_HOME", "/proc/nowhere", 1);
  EXPECT_FALSE(FleetSecret::OfThisUser().ok());
  unsetenv("XDG_STATE_HOME");
}

}  // namespace
}  // namespace baton
