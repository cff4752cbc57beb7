#include "client/response_format_flags.h"

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResponseFormatFlagsTest : public ::testing::Test {
 protected:
  ResponseFormatFlagsTest() { AddResponseFormatFlags(flags_, given_); }

  absl::Status Parse(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv = {"prog"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    const absl::Status status = flags_.Parse(static_cast<int>(argv.size()), argv.data());
    if (!status.ok()) return status;
    absl::StatusOr<v1::ResponseFormat> format = ReadResponseFormat(flags_, given_);
    if (!format.ok()) return format.status();
    format_ = *std::move(format);
    return absl::OkStatus();
  }
  static std::string FileWith(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/response_format_flags_test.txt";
    std::ofstream(path) << text;
    return path;
  }

  ResponseFormatFlags given_;
  v1::ResponseFormat format_;
  FlagSet flags_{"prog", "A test."};
};

TEST_F(ResponseFormatFlagsTest, WithoutAFlagTheAnswerHasNoForm) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(format_.form_case(), v1::ResponseFormat::FORM_NOT_SET);
}

TEST_F(ResponseFormatFlagsTest, JsonObjectAsksForAnyObject) {
  ASSERT_TRUE(Parse({"--json-object"}).ok());
  EXPECT_TRUE(format_.has_json_object());
}

TEST_F(ResponseFormatFlagsTest, ASchemaIsReadFromItsFile) {
  ASSERT_TRUE(Parse({"--json-schema=" + FileWith("{\"type\": \"integer\"}\n")}).ok());
  EXPECT_EQ(format_.json_schema(), "{\"type\": \"integer\"}\n");
}

TEST_F(ResponseFormatFlagsTest, AGrammarIsReadFromItsFile) {
  ASSERT_TRUE(Parse({"--grammar", FileWith("root ::= \"a\"")}).ok());
  EXPECT_EQ(format_.grammar(), "root ::= \"a\"");
}

TEST_F(ResponseFormatFlagsTest, AFileOfWindowsHasTheSameForm) {
  ASSERT_TRUE(Parse({"--grammar", FileWith("\xef\xbb\xbfroot ::= x\r\nx ::= \"a\"\r\n")}).ok());
  EXPECT_EQ(format_.grammar(), "root ::= x\nx ::= \"a\"\n");
}

TEST_F(ResponseFormatFlagsTest, ASchemaOfWindowsHasTheSameForm) {
  ASSERT_TRUE(Parse({"--json-schema=" + FileWith("\xef\xbb\xbf{\"type\": \"null\"}\r\n")}).ok());
  EXPECT_EQ(format_.json_schema(), "{\"type\": \"null\"}\r\n") << "JSON takes such line ends";
}

TEST_F(ResponseFormatFlagsTest, ARegexIsGivenAsItIs) {
  ASSERT_TRUE(Parse({"--regex", "[a-z]+,[0-9]{2}"}).ok());
  EXPECT_EQ(format_.regex(), "[a-z]+,[0-9]{2}");
}

TEST_F(ResponseFormatFlagsTest, ChoicesAreRepeatedAndMayHaveCommas) {
  ASSERT_TRUE(Parse({"--choice", "yes, it is", "--choice=no"}).ok());
  EXPECT_THAT(format_.choice().texts(), ElementsAre("yes, it is", "no"));
}

TEST_F(ResponseFormatFlagsTest, TwoFormsAreRefusedByTheirNames) {
  EXPECT_THAT(std::string(Parse({"--regex=a", "--choice=b"}).message()),
              AllOf(HasSubstr("--regex"), HasSubstr("--choice")));
}

TEST_F(ResponseFormatFlagsTest, AFileThatIsNotThereIsRefusedByItsFlag) {
  EXPECT_THAT(std::string(Parse({"--json-schema=/no/such/file"}).message()),
              AllOf(HasSubstr("--json-schema"), HasSubstr("/no/such/file")));
}

TEST_F(ResponseFormatFlagsTest, AnEmptyFormIsRefusedByItsFlag) {
  EXPECT_THAT(std::string(Parse({"--grammar", FileWith("")}).message()),
              AllOf(HasSubstr("--grammar"), HasSubstr("is empty")));
}

TEST_F(ResponseFormatFlagsTest, WhatIsNotUtf8IsRefusedByItsFlag) {
  EXPECT_THAT(std::string(Parse({"--regex=\xff"}).message()),
              AllOf(HasSubstr("--regex"), HasSubstr("is not UTF-8")));
}

}  // namespace
}  // namespace baton
