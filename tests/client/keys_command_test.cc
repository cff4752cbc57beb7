#include "client/keys_command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "router/tenants/api_key.h"

namespace baton {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Ended {
  int code = 0;
  std::string out, err;
};

// Runs the command as main does.
template <typename Command>
Ended Call(const std::vector<std::string>& arguments) {
  Command command;
  FlagSet flags("test", "A test.");
  command.AddFlags(flags);
  std::vector<const char*> argv = {"test"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const absl::Status status = flags.Parse(static_cast<int>(argv.size()), argv.data());
  EXPECT_TRUE(status.ok()) << status;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ended ended{.code = command.Run(flags), .out = {}, .err = {}};
  ended.out = testing::internal::GetCapturedStdout();
  ended.err = testing::internal::GetCapturedStderr();
  return ended;
}

class KeysCommandTest : public testing::Test {
 protected:
  KeysCommandTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  KeysFile Content() const {
    const auto file = ParseKeysFile(path_, *ReadKeysText(path_));
    EXPECT_TRUE(file.ok()) << file.status();
    return *file;
  }
  // The key that `baton keys new` prints.
  std::string New(std::vector<std::string> arguments) {
    arguments.push_back(flag_);
    const Ended ended = Call<KeysNewCommand>(arguments);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out.back(), '\n');
    return ended.out.substr(0, ended.out.size() - 1);
  }

  const std::string folder_ = testing::TempDir() + "keys_command_test";
  const std::string path_ = folder_ + "/keys.toml";
  const std::string flag_ = "--file=" + path_;
};

TEST_F(KeysCommandTest, NewPrintsAKeyWhoseHashAloneIsWritten) {
  const std::string key = New({"--tenant=acme", "--streams=3", "--min-priority=-2"});
  EXPECT_TRUE(IsApiKey(key)) << key;
  EXPECT_THAT(*ReadKeysText(path_), Not(HasSubstr(key.substr(6, 20))));
  KeysFile expected;
  expected.tenants["acme"] = {.streams = 3, .min_priority = -2};
  expected.keys = {{.hash = HashApiKey(key), .tenant = "acme"}};
  EXPECT_EQ(Content(), expected);
}

TEST_F(KeysCommandTest, AnotherKeyChangesTheLimitsThatAreGivenAndNoOthers) {
  New({"--tenant=acme", "--streams=3", "--tokens-per-minute=600"});
  New({"--tenant=other"});
  New({"--tenant=acme", "--streams=0", "--requests-per-second=0.5", "--share=docs", "--operator"});
  EXPECT_EQ(Content().keys.size(), 3u);
  EXPECT_EQ(Content().tenants.at("acme"), (Tenant{.requests_per_second = 0.5,
                                                  .tokens_per_minute = 600,
                                                  .share = "docs",
                                                  .operates = true}));
  EXPECT_EQ(Content().tenants.at("other"), Tenant());
}

TEST_F(KeysCommandTest, ListShowsIdsTenantsAndLimitsAndRevokeMarksOne) {
  const std::string first = ApiKeyId(HashApiKey(New({"--tenant=acme", "--streams=37"})));
  const std::string second = ApiKeyId(HashApiKey(New({"--tenant=other"})));
  EXPECT_EQ(Call<KeysRevokeCommand>({second, flag_}).code, 0);
  const std::string list = Call<KeysListCommand>({flag_}).out;
  for (const std::string& part : {first + "  ", second + " revoked", std::string(" 37 ")}) {
    EXPECT_THAT(list, HasSubstr(part)) << list;
  }
  EXPECT_FALSE(Content().keys[0].revoked);
  EXPECT_TRUE(Content().keys[1].revoked);
}

TEST_F(KeysCommandTest, ListShowsWhichTenantsAreOperators) {
  New({"--tenant=acme"});
  New({"--tenant=ops", "--operator"});
  const std::string list = Call<KeysListCommand>({flag_}).out;
  EXPECT_THAT(list, HasSubstr(" TENANT               OPERATOR ")) << list;
  EXPECT_THAT(list, HasSubstr(" acme                 -        ")) << list;
  EXPECT_THAT(list, HasSubstr(" ops                  yes      ")) << list;
}

TEST_F(KeysCommandTest, WhatCannotBeIsRefusedAndNothingIsWritten) {
  const std::string key = New({"--tenant=acme"});
  const std::string before = *ReadKeysText(path_);
  const std::pair<Ended, const char*> refused[] = {
      {Call<KeysNewCommand>({"--tenant=a b", flag_}), "--tenant: 'a b' must be 1 to 64"},
      {Call<KeysNewCommand>({flag_}), "--tenant: '' must be 1 to 64"},
      {Call<KeysNewCommand>({"--tenant=a"}), "--file: not given"},
      {Call<KeysNewCommand>({"--tenant=a", "--share=a b", flag_}), "--share: 'a b' must be"},
      {Call<KeysNewCommand>({"--tenant=a", "--max-priority=-1", flag_}), "--min-priority 0 is"},
      {Call<KeysNewCommand>({"--tenant=a", "--requests-per-second=0.0001", flag_}),
       "requests-per-second must be"},
      {Call<KeysRevokeCommand>({"0123456789ab", flag_}), "has no key with the id '0123456789ab'"},
      {Call<KeysRevokeCommand>({flag_}), "has no key with the id ''"},
      {Call<KeysListCommand>({"--file=/nowhere.toml"}), "/nowhere.toml: No such file"},
  };
  for (const auto& [ended, error] : refused) {
    EXPECT_EQ(ended.code, kExitUsage) << error;
    EXPECT_EQ(ended.out, "") << error;
    EXPECT_THAT(ended.err, HasSubstr(error));
  }
  EXPECT_EQ(*ReadKeysText(path_), before);
}

TEST_F(KeysCommandTest, AKeyThatTheUserBringsIsStoredAsItsHashAndNotPrinted) {
  const std::string key = "sk-0123456789abcdefghijklmnopqrst";
  const std::string from = "--key-from=" + folder_ + "/own.key";
  std::ofstream(folder_ + "/own.key") << key << "\n";
  const Ended added = Call<KeysNewCommand>({"--tenant=acme", from, flag_});
  EXPECT_EQ(added.code, 0) << added.err;
  EXPECT_EQ(added.out, "added the key " + ApiKeyId(HashApiKey(key)) + "\n");
  EXPECT_THAT(*ReadKeysText(path_), Not(HasSubstr(key)));
  EXPECT_EQ(Content().keys,
            (std::vector<ApiKeyEntry>{{.hash = HashApiKey(key), .tenant = "acme"}}));
  const Ended again = Call<KeysNewCommand>({"--tenant=other", from, flag_});
  EXPECT_EQ(again.code, kExitUsage);
  EXPECT_THAT(again.err,
              HasSubstr("has this key already, with the id " + ApiKeyId(HashApiKey(key))));
  EXPECT_EQ(Content().tenants.count("other"), 0u);
}

TEST_F(KeysCommandTest, AKeyThatIsEasyToGuessIsRefusedAndNotRepeated) {
  const std::string from = "--key-from=" + folder_ + "/own.key";
  for (const std::string& key :
       {std::string(), std::string("0123456789abcdefghijklmnopqrstu"),  // 31 characters
        std::string("secretsecretsecretsecretsecretsecret"),
        std::string("two words 0123456789abcdefghijklmn")}) {
    std::ofstream(folder_ + "/own.key") << key << "\n";
    const Ended ended = Call<KeysNewCommand>({"--tenant=acme", from, flag_});
    EXPECT_EQ(ended.code, kExitUsage);
    EXPECT_THAT(ended.err, HasSubstr("--key-from " + folder_ +
                                     "/own.key: must hold one key of 32 to 256 printable"));
    EXPECT_THAT(ended.err, HasSubstr("openssl rand -hex 32"));
    if (!key.empty()) {
      EXPECT_THAT(ended.err + ended.out, Not(HasSubstr(key)));
    }
  }
  EXPECT_THAT(Call<KeysNewCommand>({"--tenant=acme", "--key-from=", flag_}).err,
              HasSubstr("No such file"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(KeysCommandTest, TwoAtATimeDoNotLoseAKey) {
  const int lock = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  EXPECT_THAT(Call<KeysNewCommand>({"--tenant=a", flag_}).err, HasSubstr("is changing it"));
  close(lock);
  New({"--tenant=a"});
}

}  // namespace
}  // namespace baton
