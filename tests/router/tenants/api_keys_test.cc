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

#include "common/base/small_file.h"
#include "common/rpc/status.h"
#include "router/tenants/api_key.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using testing::HasSubstr;

void Eventually(const std::function<bool()>& condition) {
  const absl::Time until = absl::Now() + absl::Seconds(30);
  while (!condition()) {
    ASSERT_LT(absl::Now(), until) << "it did not come true";
    absl::SleepFor(absl::Milliseconds(1));
  }
}

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

TEST_F(ApiKeysTest, AKeyThatAUserBroughtCountsAsOneThatWasMade) {
  const std::string brought = "0123456789abcdef0123456789abcdef";
  Write({{.hash = HashApiKey(brought), .tenant = "acme"}});
  Eventually([&] { return keys_->Find(brought).ok(); });
  EXPECT_EQ(keys_->Find(brought)->tenant, "acme");
}

TEST_F(ApiKeysTest, TellsWhatTheFileSaysOfATenant) {
  EXPECT_EQ(keys_->FindTenant("acme"), (Tenant{.streams = 3}));
  EXPECT_EQ(keys_->FindTenant("other"), std::nullopt);
}

class ServeKeysInUse : public testing::Test {
 protected:
  // The keys of both files, or of the one that is not empty.
  std::unique_ptr<ApiKeys> Load(const std::string& api_keys, const std::string& serve_keys) {
    auto loaded = ApiKeys::Load(ApiKeys::Files{.api_keys = api_keys, .serve_keys = serve_keys},
                                metrics_, absl::Milliseconds(1));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *std::move(loaded);
  }
  // Writes the file of --serve-key-file in one step.
  std::string Write(const std::string& content) const {
    const std::string path = folder_.path() + "/keys.txt";
    EXPECT_TRUE(WriteSmallFile(path, content).ok());
    return path;
  }
  std::string WriteTenants(const KeysFile& file) const {
    const std::string path = folder_.path() + "/keys.toml";
    EXPECT_TRUE(WriteKeysFile(path, file).ok());
    return path;
  }
  // Whether the gauge is 1.
  bool stale() const {
    return metrics_.Scrape().find(
               "baton_router_api_keys_stale{model_name=\"\",role=\"router\"} 1") !=
           std::string::npos;
  }

  const TemporaryFolder folder_{"serve_keys_in_use"};
  const std::string own_ = "my-own-key-of-26-character";
  const std::string made_ = MakeApiKey();
  Metrics metrics_{"router"};
};

TEST_F(ServeKeysInUse, WhoeverShowsOneIsTheTenantDefaultWithoutLimits) {
  const auto keys = Load("", Write(own_ + "\n"));
  EXPECT_EQ(keys->Find(own_)->tenant, "default");
  EXPECT_FALSE(keys->Find(own_)->revoked);
  EXPECT_EQ(keys->FindTenant("default"), Tenant());
  EXPECT_EQ(ErrorReason(keys->Find(own_ + "x").status()), "API_KEY_UNKNOWN");
  EXPECT_EQ(ErrorReason(keys->Find("short").status()), "API_KEY_MALFORMED");
}

TEST_F(ServeKeysInUse, BothFilesCountAndTheTenantsFileComesFirst) {
  KeysFile file;
  file.tenants["acme"] = {.streams = 3};
  file.tenants["default"] = {.streams = 7};
  file.keys = {{.hash = HashApiKey(made_), .tenant = "acme"},
               {.hash = HashApiKey("revoked-key-0123456789"), .tenant = "acme", .revoked = true}};
  const auto keys =
      Load(WriteTenants(file), Write(own_ + "\n" + made_ + "\nrevoked-key-0123456789\n"));
  EXPECT_EQ(keys->Find(own_)->tenant, "default");
  EXPECT_EQ(keys->FindTenant("default"), (Tenant{.streams = 7}));
  EXPECT_EQ(keys->Find(made_)->tenant, "acme");
  EXPECT_TRUE(keys->Find("revoked-key-0123456789")->revoked)
      << "the other file does not bring it back";
}

TEST_F(ServeKeysInUse, TheFileIsReadAgainAndOneThatIsWrongKeepsTheLastGoodOne) {
  const std::string path = Write(own_ + "\n");
  const auto keys = Load("", path);
  Write("another-key-0123456789\n");
  Eventually([&] { return keys->Find("another-key-0123456789").ok(); });
  EXPECT_EQ(ErrorReason(keys->Find(own_).status()), "API_KEY_UNKNOWN");
  testing::internal::CaptureStderr();
  chmod(path.c_str(), 0640);
  Eventually([&] { return stale(); });
  EXPECT_TRUE(keys->Find("another-key-0123456789").ok());
  chmod(path.c_str(), 0600);
  Eventually([&] { return !stale(); });
  Write("short\n");
  Eventually([&] { return stale(); });
  EXPECT_TRUE(keys->Find("another-key-0123456789").ok());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("--serve-key-file " + path + ": mode 0640: its group may read it"));
  EXPECT_THAT(log, HasSubstr("--serve-key-file " + path + ":1: must be a key"));
  EXPECT_THAT(log, testing::Not(HasSubstr("another-key")));
}

TEST_F(ServeKeysInUse, AWrongFileAtTheStartIsAnErrorThatNamesTheFlag) {
  const std::string path = Write(own_ + "\n");
  chmod(path.c_str(), 0644);
  const absl::Status status = ApiKeys::Load(ApiKeys::Files{.serve_keys = path}, metrics_).status();
  EXPECT_EQ(std::string(status.message()),
            absl::StrCat("--serve-key-file ", path,
                         ": mode 0644: everybody may read it; chmod 600 ", path));
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
