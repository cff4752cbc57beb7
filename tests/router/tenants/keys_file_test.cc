#include "router/tenants/keys_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

#include "common/base/small_file.h"

namespace baton {
namespace {

using testing::HasSubstr;

const std::string kHash(64, 'a');

std::string ErrorOf(const std::string& content) {
  const auto file = ParseKeysFile("keys.toml", content);
  EXPECT_FALSE(file.ok()) << content;
  return std::string(file.status().message());
}

KeysFile Example() {
  KeysFile file;
  file.tenants["acme"] = {.requests_per_second = 0.1,
                          .tokens_per_minute = 600000,
                          .streams = 16,
                          .min_priority = -3,
                          .max_priority = 7,
                          .share = "docs",
                          .operates = true};
  file.tenants["b.c/d"] = {};
  file.keys = {{.hash = std::string(32, '\1'), .tenant = "b.c/d", .revoked = true},
               {.hash = std::string(32, '\xff'), .tenant = "acme"}};
  return file;
}

TEST(KeysFile, WhatIsWrittenIsReadAgain) {
  for (const KeysFile& file : {KeysFile(), Example()}) {
    const auto read = ParseKeysFile("keys.toml", FormatKeysFile(file));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, file) << FormatKeysFile(file);
  }
}

TEST(KeysFile, WhatATenantDoesNotSayIsNotLimitedAndNobodyGetsAheadOfZero) {
  const auto file = ParseKeysFile("keys.toml", "[tenants.a]\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tenants.at("a"), Tenant());
  EXPECT_EQ(Tenant().min_priority, 0);
}

TEST(KeysFile, ErrorsNameLineTableAndKey) {
  const std::string key =
      absl::StrCat("[tenants.a]\n[[keys]]\ntenant = 'a'\nsha256 = '", kHash, "'\n");
  const std::pair<std::string, const char*> wrong[] = {
      {"x", "keys.toml:1:2: not TOML"},
      {"\ntenant = 1", "keys.toml:2: tenant is not known; the file has [tenants.\"NAME\"]"},
      {"tenants = 1", "keys.toml:1: tenants must be tables"},
      {"[tenants.'a b']", "keys.toml:1: tenant 'a b' must be 1 to 64 letters"},
      {"[tenants.a]\nstream = 1", "keys.toml:2: [tenants.\"a\"]: stream is not a known field"},
      {"[tenants.a]\nstreams = 0", "keys.toml:2: [tenants.\"a\"]: streams must be a number from 1"},
      {"[tenants.a]\nstreams = '2'", "streams must be a number"},
      {"[tenants.a]\nrequests-per-second = nan", "requests-per-second must be a number from 0.001"},
      {"[tenants.a]\nmin-priority = 2147483648", "min-priority must be a number from -2147483648"},
      {"[tenants.a]\nmax-priority = -1", "keys.toml:1: [tenants.\"a\"]: min-priority is above"},
      {"[tenants.a]\nshare = ''", "share '' must be 1 to 64"},
      {"keys = 1", "keys.toml:1: keys must be tables, each begun by [[keys]]"},
      {"[[keys]]\nsha256 = 'ab'", "keys.toml:2: [[keys]]: sha256 must be 64 hexadecimal digits"},
      {"[[keys]]\ntenant = 'a'", "keys.toml:1: [[keys]]: sha256 is missing"},
      {key + "revoked = 'no'", "keys.toml:5: [[keys]]: revoked must be true or false"},
      {key + "name = 'x'", "keys.toml:5: [[keys]]: name is not a known field"},
      {key + key.substr(key.find("[[")), "keys.toml:5: [[keys]]: sha256 stands twice"},
      {key.substr(key.find("[[")), "tenant 'a' has no table [tenants.\"a\"]"},
  };
  for (const auto& [content, error] : wrong) {
    EXPECT_THAT(ErrorOf(content), HasSubstr(error)) << content;
  }
}

TEST(KeysFile, AFileThatCannotBeReadOrWrittenIsNamed) {
  const std::string path = testing::TempDir() + "no_such_folder/keys.toml";
  EXPECT_THAT(std::string(ReadKeysText(path).status().message()),
              HasSubstr(path + ": No such file"));
  EXPECT_THAT(std::string(WriteKeysFile(path, {}).message()),
              HasSubstr(path + ": cannot be written: No such file"));
  EXPECT_FALSE(ReadKeysText(testing::TempDir()).ok()) << "a folder is no file";
  const std::string empty = testing::TempDir() + "keys_file_test_empty.toml";
  ASSERT_TRUE(WriteSmallFile(empty, "").ok());
  EXPECT_THAT(std::string(ReadKeysText(empty).status().message()), HasSubstr("is empty"));
}

}  // namespace
}  // namespace baton
