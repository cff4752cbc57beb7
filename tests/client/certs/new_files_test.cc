#include "client/certs/new_files.h"

#include <sys/stat.h>

#include <filesystem>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/small_file.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kEnoughBytes = 1000;

mode_t ModeOfNew(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

TEST(NewFiles, AppearWithTheirModesInFoldersForTheirOwnerOnly) {
  const TemporaryFolder folder("new_files");
  const std::string inner = folder.path() + "/a/b";
  const absl::Status written =
      WriteNewFiles({{.path = inner + "/key", .contents = "secret"},
                     {.path = inner + "/certificate", .contents = "public", .mode = 0644}},
                    /*replace=*/false);
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(*ReadSmallFile(inner + "/key", kEnoughBytes), "secret");
  EXPECT_EQ(*ReadSmallFile(inner + "/certificate", kEnoughBytes), "public");
  EXPECT_EQ(ModeOfNew(inner + "/key"), 0600U);
  EXPECT_EQ(ModeOfNew(inner + "/certificate"), 0644U);
  EXPECT_EQ(ModeOfNew(folder.path() + "/a"), 0700U);
  EXPECT_EQ(ModeOfNew(inner), 0700U);
  const std::filesystem::directory_iterator files(inner);
  EXPECT_EQ(std::distance(begin(files), end(files)), 2) << "nothing temporary is left";
}

TEST(NewFiles, NothingIsWrittenWhereOneOfThemIsThere) {
  const TemporaryFolder folder("new_files_there");
  const std::string there = folder.File("second", "old");
  const std::string first = folder.path() + "/first";
  const absl::Status status =
      WriteNewFiles({{.path = first, .contents = "1"}, {.path = there, .contents = "2"}},
                    /*replace=*/false);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(there), HasSubstr("--force")));
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_EQ(*ReadSmallFile(there, kEnoughBytes), "old");
}

TEST(NewFiles, ALinkToNowhereIsThereToo) {
  const TemporaryFolder folder("new_files_link");
  const std::string link = folder.path() + "/link";
  std::filesystem::create_symlink(folder.path() + "/nowhere", link);
  EXPECT_FALSE(WriteNewFiles({{.path = link, .contents = "1"}}, /*replace=*/false).ok());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/nowhere"));
}

TEST(NewFiles, ReplaceThoseThatAreThereWhereTheyMay) {
  const TemporaryFolder folder("new_files_replaced");
  const std::string there = folder.File("first", "old");
  ASSERT_TRUE(WriteNewFiles({{.path = there, .contents = "new"}}, /*replace=*/true).ok());
  EXPECT_EQ(*ReadSmallFile(there, kEnoughBytes), "new");
  EXPECT_EQ(ModeOfNew(there), 0600U);
}

TEST(NewFiles, AFolderThatCannotBeMadeIsNamedWithTheRemedy) {
  const absl::Status status =
      WriteNewFiles({{.path = "/dev/null/certs/key", .contents = ""}}, /*replace=*/false);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/dev/null/certs"), HasSubstr("--folder")));
}

}  // namespace
}  // namespace baton
