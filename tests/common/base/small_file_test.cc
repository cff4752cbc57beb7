#include "common/base/small_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace baton {
namespace {

class SmallFileTest : public testing::Test {
 protected:
  SmallFileTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  const std::string folder_ = testing::TempDir() + "small_file_test";
  const std::string path_ = folder_ + "/file";
};

TEST_F(SmallFileTest, IsReplacedInOneStepAndOnlyItsOwnerReadsIt) {
  for (const std::string& content : {std::string("one"), std::string(100000, 'x'), std::string()}) {
    ASSERT_TRUE(WriteSmallFile(path_, content).ok());
    EXPECT_EQ(*ReadSmallFile(path_, 100000), content);
  }
  struct stat state {};
  ASSERT_EQ(stat(path_.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0600u);
  using Entries = std::filesystem::directory_iterator;
  EXPECT_EQ(std::distance(Entries(folder_), Entries()), 1) << "a temporary file is left";
}

TEST_F(SmallFileTest, WhatCannotBeReadOrWrittenIsNamed) {
  const auto starts = [](const absl::Status& status, const std::string& text) {
    return absl::IsInvalidArgument(status) && std::string(status.message()).starts_with(text);
  };
  const std::string nowhere = folder_ + "/no/file";
  EXPECT_TRUE(starts(ReadSmallFile(nowhere, 1).status(), nowhere + ": No such file"));
  EXPECT_TRUE(starts(WriteSmallFile(nowhere, ""), nowhere + ": cannot be written: No such"));
  EXPECT_TRUE(starts(ReadSmallFile(folder_, 10).status(), folder_ + ": is not a regular file"));
  ASSERT_TRUE(WriteSmallFile(path_, "123").ok());
  EXPECT_TRUE(starts(ReadSmallFile(path_, 2).status(), path_ + ": is longer than 2 bytes"));
  EXPECT_TRUE(ReadSmallFile(path_, 3).ok());
}

TEST_F(SmallFileTest, AByteOrderMarkIsNoPartOfTheText) {
  ASSERT_TRUE(WriteSmallFile(path_, "\xef\xbb\xbfkey\r\n").ok());
  EXPECT_EQ(*ReadSmallFile(path_, 10), "key\r\n");
  EXPECT_EQ(*ReadSmallFileOrPipe(path_, 10), "key\r\n");
  EXPECT_FALSE(ReadSmallFile(path_, 7).ok()) << "the bound is that of the file";
}

TEST_F(SmallFileTest, APipeIsReadOnlyByWhoWaitsForIt) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  // Nobody writes it: who waited for that would never come back.
  const absl::Status status = ReadSmallFile(path_, 10).status();
  EXPECT_EQ(status.message(), path_ + ": is not a regular file; name one");
  EXPECT_FALSE(ReadSmallFile("/dev/zero", 10).ok());
  std::thread writer([this] { std::ofstream(path_) << "piped"; });
  EXPECT_EQ(*ReadSmallFileOrPipe(path_, 10), "piped");
  writer.join();
  EXPECT_FALSE(ReadSmallFileOrPipe("/dev/zero", 10).ok());
}

}  // namespace
}  // namespace baton
