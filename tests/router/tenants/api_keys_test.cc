#include "router/tenants/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

#include "common/rpc/status.h"
#include "router/tenants/api_key.h"

namespace baton {
namespace {

using testing::HasSubstr;

class ApiKeysTest : public testing::Test {
 protected:
  ApiKeysTest() {
    Write({});
    auto loaded = ApiKeys::Load(path_, metrics_, absl::Milliseconds(1));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    keys_ = *std::move(loaded);
  }
  ~ApiKeysTest() override { unlink(path_.c_str()); }

  void Write(const std::vector<ApiKeyEntry>& keys) {
    KeysFile file;
    file.tenants["acme"] = {.streams = 3};
    file.keys = keys;
    ASSERT_TRUE(WriteKeysFile(path_, file).ok());
  }
  std::string ReasonFor(const std::string& key) const {
    return ErrorReason(keys_->Find(key).status());
  }
  bool stale() const {
    return metrics_.Scrape().find(
               "baton_router_api_keys_stale{model_name=\"\",role=\"router\"} 1") !=
           std::string::npos;
  }
  static void Eventually(const std::function<bool()>& condition) {
    const absl::Time until = absl::Now() + absl::Seconds(30);
    while (!condition()) {
      ASSERT_LT(absl::Now(), until) << "it did not come true";
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  const std::string path_ = testing::TempDir() + "api_keys_test.toml";
  const std::string key_ = MakeApiKey();
  Metrics metrics_{"router"};
  std::unique_ptr<ApiKeys> keys_;
};

TEST_F(ApiKeysTest, AKeyCountsFromWhenItIsAddedUntilItIsRevokedOrGone) {
  EXPECT_EQ(ReasonFor(key_), "API_KEY_UNKNOWN");
  Write({{.hash = HashApiKey(MakeApiKey()), .tenant = "acme"},
         {.hash = HashApiKey(key_), .tenant = "acme"}});
  Eventually([&] { return keys_->Find(key_).ok(); });
  EXPECT_EQ(keys_->Find(key_)->tenant, "acme");
  EXPECT_EQ(keys_->Find(key_)->key_id, ApiKeyId(HashApiKey(key_)));
  EXPECT_EQ(ReasonFor(MakeApiKey()), "API_KEY_UNKNOWN");
  Write({{.hash = HashApiKey(key_), .tenant = "acme", .revoked = true}});
  Eventually([&] { return keys_->Find(key_)->revoked; });
  EXPECT_EQ(keys_->Find(key_)->tenant, "acme") << "whoever held it is known";
  Write({});
  Eventually([&] { return ReasonFor(key_) == "API_KEY_UNKNOWN"; });
}

TEST_F(ApiKeysTest, WhatIsNoKeyIsRefusedAndNeverRepeated) {
  for (const std::string text : {"", "secret", "baton-secret"}) {
    const absl::Status status = keys_->Find(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(ErrorReason(status), "API_KEY_MALFORMED");
    EXPECT_EQ(status.ToString().find("secret"), std::string::npos);
  }
}

TEST_F(ApiKeysTest, AHashThatOnlyBeginsAsAnotherIsUnknown) {
  std::string hash = HashApiKey(key_);
  hash.back() = static_cast<char>(hash.back() ^ 1);
  const std::string probe = MakeApiKey();
  Write({{.hash = hash, .tenant = "acme"}, {.hash = HashApiKey(probe), .tenant = "acme"}});
  Eventually([&] { return keys_->Find(probe).ok(); });
  EXPECT_EQ(ReasonFor(key_), "API_KEY_UNKNOWN");
}

TEST_F(ApiKeysTest, AFileThatBreaksKeepsTheLastGoodOneAndAGaugeTells) {
  Write({{.hash = HashApiKey(key_), .tenant = "acme"}});
  Eventually([&] { return keys_->Find(key_).ok(); });
  EXPECT_FALSE(stale());
  std::ofstream(path_) << "[[keys]]\nsha256 = 'short'\n";
  Eventually([&] { return stale(); });
  EXPECT_TRUE(keys_->Find(key_).ok());
  unlink(path_.c_str());
  Write({{.hash = HashApiKey(key_), .tenant = "acme"}});
  Eventually([&] { return !stale(); });
  unlink(path_.c_str());
  Eventually([&] { return stale(); });
  EXPECT_TRUE(keys_->Find(key_).ok());
}

TEST_F(ApiKeysTest, AFileThatOthersMayReadIsALineWhenItIsTaken) {
  const auto warnings = [](const std::string& log) {
    return std::vector<std::string>(absl::StrSplit(log, "everybody may read it")).size() - 1;
  };
  chmod(path_.c_str(), 0644);
  testing::internal::CaptureStderr();
  Metrics metrics("router");
  ASSERT_TRUE(ApiKeys::Load(path_, metrics, absl::Minutes(1)).ok());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr(absl::StrCat("--api-keys ", path_,
                                          ": mode 0644: everybody may read it; "
                                          "chmod 600 ",
                                          path_)));
  EXPECT_EQ(warnings(log), 1u);
  testing::internal::CaptureStderr();
  std::ofstream(path_, std::ios::app) << "\n[tenants.\"more\"]\n";  // the mode stays
  Eventually([&] { return keys_->FindTenant("more").has_value(); });
  Write({{.hash = HashApiKey(key_), .tenant = "acme"}});  // with the right mode
  Eventually([&] { return keys_->Find(key_).ok(); });
  EXPECT_EQ(warnings(testing::internal::GetCapturedStderr()), 1u);
}

TEST_F(ApiKeysTest, TellsWhatTheFileSaysOfATenant) {
  EXPECT_EQ(keys_->FindTenant("acme"), (Tenant{.streams = 3}));
  EXPECT_EQ(keys_->FindTenant("other"), std::nullopt);
}

TEST(ApiKeysAtTheStart, AWrongFileIsAnErrorThatNamesFlagFileAndLine) {
  Metrics metrics("router");
  const std::string path = testing::TempDir() + "api_keys_wrong.toml";
  std::ofstream(path) << "\nkeys = 1\n";
  EXPECT_THAT(std::string(ApiKeys::Load(path, metrics).status().message()),
              HasSubstr("--api-keys " + path + ":2: keys"));
  EXPECT_THAT(std::string(ApiKeys::Load("/nowhere.toml", metrics).status().message()),
              HasSubstr("--api-keys /nowhere.toml: No such file"));
}

}  // namespace
}  // namespace baton
