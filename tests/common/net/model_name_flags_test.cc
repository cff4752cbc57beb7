#include "common/net/model_name_flags.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ModelNameFlagsTest : public ::testing::Test {
 protected:
  // Parses the command line. Returns the error's message; empty if there is none.
  std::string Parse(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv = {"baton-router"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    names_.clear();
    patterns_.clear();
    FlagSet flags("baton-router", "A test.");
    AddServedModelNameFlag(flags, names_);
    AddModelAliasFlag(flags, patterns_);
    const absl::Status status = flags.Parse(static_cast<int>(argv.size()), argv.data());
    given_ = flags.GivenArguments();
    return std::string(status.message());
  }

  std::vector<std::string> names_, patterns_, given_;
};

TEST_F(ModelNameFlagsTest, NamesAreRepeatedOrSeparatedByCommasOrBlanks) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--served-model-name=a", "--served-model-name=org/b", "--served-model-name", "c"},
           {"--served-model-name=a,org/b,c"},
           {"--served-model-name", "a org/b c"},
           {"--served-model-name=a, org/b", "--served-model-name= c "},
           {"--served-model-name=a,org/b a", "--served-model-name=c,a"}}) {
    EXPECT_EQ(Parse(arguments), "");
    EXPECT_THAT(names_, ElementsAre("a", "org/b", "c")) << arguments.front();
  }
  EXPECT_EQ(Parse({"--model-alias=claude-*", "--model-alias", "gpt-* o?"}), "");
  EXPECT_THAT(patterns_, ElementsAre("claude-*", "gpt-*", "o?"));
  EXPECT_EQ(Parse({"--served-model-name="}), "");
  EXPECT_THAT(names_, IsEmpty());
}

TEST_F(ModelNameFlagsTest, WhatIsHandedToAnotherProcessMeansTheSameThere) {
  EXPECT_EQ(Parse({"--served-model-name=a b,c", "--model-alias=claude-* x"}), "");
  EXPECT_EQ(Parse(std::vector<std::string>(given_)), "");
  EXPECT_THAT(names_, ElementsAre("a", "b", "c"));
  EXPECT_THAT(patterns_, ElementsAre("claude-*", "x"));
}

TEST_F(ModelNameFlagsTest, AnErrorNamesTheFlagTheValueAndTheRemedy) {
  EXPECT_THAT(Parse({"--served-model-name=a,claude-*"}),
              AllOf(HasSubstr("--served-model-name: 'claude-*'"), HasSubstr("--model-alias")));
  EXPECT_THAT(Parse({"--served-model-name=which?"}), HasSubstr("--model-alias"));
  EXPECT_THAT(Parse({absl::StrCat("--model-alias=", std::string(kMaxNameBytes + 1, 'a'))}),
              AllOf(HasSubstr("--model-alias: 'aaa"), HasSubstr("has 257 bytes; at most 256")));
  EXPECT_THAT(Parse({"--served-model-name=a\x7f"}), HasSubstr("control character"));
  EXPECT_THAT(Parse({"--served-model-name=\xff"}), HasSubstr("not UTF-8"));
  std::vector<std::string> many;
  for (size_t i = 0; i < kMaxModelNames; ++i) many.push_back(absl::StrCat("--model-alias=", i));
  EXPECT_EQ(Parse(many), "");
  EXPECT_THAT(patterns_, SizeIs(kMaxModelNames));
  many.push_back("--model-alias=7");  // is there already
  EXPECT_EQ(Parse(many), "");
  many.push_back("--model-alias=one-more");
  EXPECT_THAT(Parse(many), HasSubstr("--model-alias: 'one-more' is one too many: at most 32"));
}

}  // namespace
}  // namespace baton
