#include "common/flags/config_file.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

class ConfigFileTest : public testing::Test {
 protected:
  ConfigFileTest() {
    const int file = mkstemp(path_.data());
    EXPECT_GE(file, 0);
    close(file);
  }
  ~ConfigFileTest() override { unlink(path_.c_str()); }

  absl::StatusOr<ConfigValues> Read(const std::string& content) {
    std::ofstream(path_, std::ios::trunc) << content;
    return ReadConfigFile(path_);
  }
  // The error with PATH where the file's path stands.
  std::string ErrorOf(const std::string& content) {
    const absl::Status status = Read(content).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return absl::StrReplaceAll(status.message(), {{path_, "PATH"}});
  }

  std::string path_ = testing::TempDir() + "config_file_XXXXXX";
};

TEST_F(ConfigFileTest, EveryKindOfScalarIsItsText) {
  const auto values = Read(
      "text = 'a b'\nempty = ''\nnumber = -12\nhex = 0x10\nlarge = 9223372036854775807\n"
      "yes = true\nno = false\nfloat = 0.1\n");
  ASSERT_TRUE(values.ok()) << values.status();
  const ConfigValues expected = {{"text", {"a b"}},
                                 {"empty", {""}},
                                 {"number", {"-12"}},
                                 {"hex", {"16"}},
                                 {"large", {"9223372036854775807"}},
                                 {"yes", {"true"}},
                                 {"no", {"false"}},
                                 {"float", {"0.10000000000000001"}}};
  EXPECT_EQ(*values, expected);
}

TEST_F(ConfigFileTest, AFloatComesBackExactly) {
  for (const double number : {0.1, 1e23, 123456.789, -2.5, 1e-300}) {
    const auto values = Read(absl::StrFormat("x = %.17e\n", number));
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(std::strtod(values->at("x")[0].c_str(), nullptr), number);
  }
}

TEST_F(ConfigFileTest, AnArrayHasItsElementsInOrderOrNone) {
  const auto values = Read("list = ['b', 'a', 3, true]\nnone = []\n");
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->at("list"), (std::vector<std::string>{"b", "a", "3", "true"}));
  ASSERT_TRUE(values->contains("none"));
  EXPECT_TRUE(values->at("none").empty());
}

TEST_F(ConfigFileTest, AnEmptyFileSetsNothing) {
  const auto values = Read("# a comment\n\n");
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_TRUE(values->empty());
}

TEST_F(ConfigFileTest, WhatIsNoValueIsRefusedWithItsLineAndKey) {
  const std::string remedy =
      " must be a string, a number, true or false, or an array of them; tables are not supported";
  EXPECT_EQ(ErrorOf("a = 1\n[router]\nb = 2\n"), "PATH:2: 'router'" + remedy);
  EXPECT_EQ(ErrorOf("a = {b = 1}\n"), "PATH:1: 'a'" + remedy);
  EXPECT_EQ(ErrorOf("\n\na = [1, [2]]\n"), "PATH:3: 'a'" + remedy);
  EXPECT_EQ(ErrorOf("a = 2024-01-01\n"), "PATH:1: 'a'" + remedy);
}

TEST_F(ConfigFileTest, WhatIsNoTomlIsRefusedWithItsPlace) {
  for (const std::string content : {"a = \n", "a\n", "a = 'x\n", "a = 1\na = 2\n"}) {
    const std::string error = ErrorOf(content);
    EXPECT_EQ(error.rfind("PATH:", 0), 0u) << error;
    EXPECT_NE(error.find(": not TOML: "), std::string::npos) << error;
    EXPECT_NE(error.find("; write lines of key = value"), std::string::npos) << error;
  }
  EXPECT_EQ(ErrorOf("a = 1\na = 2\n").rfind("PATH:2:", 0), 0u);
}

TEST(ConfigFile, AFileThatCannotBeReadIsNamedWithTheReason) {
  EXPECT_EQ(ReadConfigFile("/nowhere/x.toml").status(),
            absl::InvalidArgumentError("--config /nowhere/x.toml: No such file or directory; name "
                                       "a file that can be read"));
}

}  // namespace
}  // namespace baton
