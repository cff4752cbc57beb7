#include "client/sampling_flags.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SamplingFlagsTest : public ::testing::Test {
 protected:
  SamplingFlagsTest() { AddSamplingFlags(flags_, params_); }

  absl::Status Parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "prog");
    return flags_.Parse(static_cast<int>(arguments.size()), arguments.data());
  }
  std::string Error(std::vector<const char*> arguments) {
    return std::string(Parse(std::move(arguments)).message());
  }

  v1::SamplingParams params_;
  FlagSet flags_{"prog", "A test."};
};

TEST_F(SamplingFlagsTest, EveryFlagSetsItsField) {
  ASSERT_TRUE(Parse({"-n", "5", "--min-tokens=2", "--temperature=0.5", "--top-p=0.9", "--top-k=40",
                     "--min-p=0.05", "--presence-penalty=-1", "--frequency-penalty=1.5",
                     "--repetition-penalty=1.1", "--seed=18446744073709551615", "--stop=a,b",
                     "--stop=c", "--ignore-eos"})
                  .ok());
  EXPECT_EQ(params_.max_tokens(), 5u);
  EXPECT_EQ(params_.min_tokens(), 2u);
  EXPECT_EQ(params_.temperature(), 0.5F);
  EXPECT_EQ(params_.top_p(), 0.9F);
  EXPECT_EQ(params_.top_k(), 40);
  EXPECT_EQ(params_.min_p(), 0.05F);
  EXPECT_EQ(params_.presence_penalty(), -1);
  EXPECT_EQ(params_.frequency_penalty(), 1.5);
  EXPECT_EQ(params_.repetition_penalty(), 1.1F);
  EXPECT_EQ(params_.seed(), 18446744073709551615u);
  EXPECT_THAT(params_.stop(), ElementsAre("a,b", "c"));
  EXPECT_TRUE(params_.ignore_eos());
}

TEST_F(SamplingFlagsTest, WhatNoFlagSaysIsLeftOut) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(params_.ByteSizeLong(), 0u) << params_.ShortDebugString();
}

TEST_F(SamplingFlagsTest, ANegativeSeedIsRefusedByName) {
  EXPECT_EQ(Error({"--seed", "-1"}),
            "--seed: '-1' is not a whole number from 0 to 18446744073709551615");
}

TEST_F(SamplingFlagsTest, NumbersOutOfRangeAreRefusedByName) {
  for (const char* argument :
       {"--max-tokens=0", "--min-tokens=-1", "--temperature=-0.1", "--top-p=0", "--top-p=1.1",
        "--top-k=-2", "--min-p=2", "--presence-penalty=2.1", "--frequency-penalty=-2.1",
        "--repetition-penalty=0", "--seed=1.5", "--stop="}) {
    const std::string name = std::string(argument).substr(0, std::string(argument).find('='));
    EXPECT_THAT(Error({argument}), HasSubstr(name + ": ")) << argument;
  }
}

TEST_F(SamplingFlagsTest, TextThatIsNotUtf8IsRefusedWithItsSourceAndPlace) {
  EXPECT_THAT(Error({"--stop=ab\xff"}),
              HasSubstr("--stop: 'ab\\u00ff' is not UTF-8: byte 3 is 0xff"));
  setenv("BATON_STOP", "\xc3(", 1);
  EXPECT_THAT(Error({}),
              HasSubstr("--stop (from BATON_STOP): '\\u00c3(' is not UTF-8: byte 1 is 0xc3"));
  unsetenv("BATON_STOP");
}

TEST_F(SamplingFlagsTest, WhatIsSetIsToldByTheNamesOfTheFlags) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(SamplingText(params_), "");
  ASSERT_TRUE(Parse({"--temperature=0.7", "--max-tokens=30", "--stop=a, \"b\"", "--stop=c"}).ok());
  EXPECT_EQ(SamplingText(params_),
            "temperature 0.7, max-tokens 30, stop \"a, \\\"b\\\"\", stop \"c\"");
}

}  // namespace
}  // namespace baton
