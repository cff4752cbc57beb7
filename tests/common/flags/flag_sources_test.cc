#include "common/flags/flag_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FlagSourcesTest : public testing::Test {
 protected:
  FlagSourcesTest() { std::ofstream(path_) << "max-num-seqs = 3\nnames = ['a', 'b']\nnone = []\n"; }
  ~FlagSourcesTest() override {
    unsetenv("BATON_MAX_NUM_SEQS");
    unsetenv("BATON_CONFIG");
  }

  const std::string path_ = testing::TempDir() + "flag_sources_test.toml";
};

TEST_F(FlagSourcesTest, AFlagIsAVariableOfTheEnvironmentAndElseAKeyOfTheFile) {
  const FlagSources sources = *FlagSources::Read(path_);
  EXPECT_THAT(sources.Find("max-num-seqs").values, ElementsAre("3"));
  EXPECT_EQ(sources.Find("max-num-seqs").where, " (from " + path_ + ")");
  setenv("BATON_MAX_NUM_SEQS", "2,4", 1);
  EXPECT_THAT(sources.Find("max-num-seqs").values, ElementsAre("2,4"));
  EXPECT_EQ(sources.Find("max-num-seqs").where, " (from BATON_MAX_NUM_SEQS)");
  EXPECT_THAT(sources.Find("names").values, ElementsAre("a", "b"));
}

TEST_F(FlagSourcesTest, AFlagThatNoSourceHasIsGivenNothing) {
  const FlagSources sources = *FlagSources::Read(path_);
  EXPECT_THAT(sources.Find("other").values, IsEmpty());
  EXPECT_THAT(sources.Find("none").values, IsEmpty());
  const FlagSources no_file = *FlagSources::Read("");
  EXPECT_THAT(no_file.Find("max-num-seqs").values, IsEmpty());
  EXPECT_TRUE(no_file.CheckKeys({}).ok());
}

TEST_F(FlagSourcesTest, TheEnvironmentNamesTheFileWhereTheArgumentsNameNone) {
  setenv("BATON_CONFIG", path_.c_str(), 1);
  EXPECT_THAT(FlagSources::Read("")->Find("max-num-seqs").values, ElementsAre("3"));
  const std::string other = testing::TempDir() + "flag_sources_other.toml";
  std::ofstream(other) << "max-num-seqs = 4\n";
  EXPECT_THAT(FlagSources::Read(other)->Find("max-num-seqs").values, ElementsAre("4"));
  EXPECT_FALSE(FlagSources::Read("/nonexistent.toml").ok());
}

TEST_F(FlagSourcesTest, AKeyThatIsNoFlagIsNamedWithItsFile) {
  const FlagSources sources = *FlagSources::Read(path_);
  EXPECT_TRUE(sources.CheckKeys({"max-num-seqs", "names", "none", "more"}).ok());
  EXPECT_EQ(std::string(sources.CheckKeys({"max-num-seq", "names", "none"}).message()),
            path_ + ": unknown key 'max-num-seqs'; did you mean 'max-num-seq'?");
  EXPECT_EQ(std::string(sources.CheckKeys({"names", "none"}).message()),
            path_ +
                ": unknown key 'max-num-seqs'; keys are the names of flags without the leading "
                "dashes: see --help");
}

}  // namespace
}  // namespace baton
