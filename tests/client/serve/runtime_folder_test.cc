#include "client/serve/runtime_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class RuntimeFolderTest : public ::testing::Test {
 protected:
  RuntimeFolderTest() { chmod(base_.path().c_str(), 0700); }
  ~RuntimeFolderTest() override {
    was_.has_value() ? SetVariable(*was_) : static_cast<void>(unsetenv("XDG_RUNTIME_DIR"));
  }

  static void SetVariable(const std::string& value) { setenv("XDG_RUNTIME_DIR", value.c_str(), 1); }
  static std::string Refusal(const std::string& path) {
    return std::string(MakeOwnFolder(path).message());
  }

  const std::optional<std::string> was_ =
      std::getenv("XDG_RUNTIME_DIR") == nullptr
          ? std::nullopt
          : std::optional(std::string(std::getenv("XDG_RUNTIME_DIR")));
  const TemporaryFolder base_{"runtime_folder_test"};
  const std::string path_ = base_.path() + "/own";
};

TEST_F(RuntimeFolderTest, IsMadeForThisUserAloneAndFoundAgain) {
  EXPECT_TRUE(MakeOwnFolder(path_).ok());
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  EXPECT_TRUE(MakeOwnFolder(path_).ok());
}

TEST_F(RuntimeFolderTest, AnythingElseInItsPlaceIsRefused) {
  ASSERT_TRUE(MakeOwnFolder(base_.path() + "/other").ok());
  std::filesystem::create_symlink(base_.path() + "/other", path_);
  EXPECT_THAT(Refusal(path_), HasSubstr(path_ + ": is not a folder"))
      << "a link of somebody else's";
  std::filesystem::remove(path_);
  base_.File("own", "");
  EXPECT_THAT(Refusal(path_), HasSubstr("is not a folder"));
  EXPECT_THAT(Refusal(base_.path() + "/missing/own"), HasSubstr("XDG_RUNTIME_DIR"));
}

TEST_F(RuntimeFolderTest, AFolderThatOthersMayUseIsRefused) {
  for (const mode_t mode : {0755, 0701, 0710, 0777}) {
    ASSERT_TRUE(MakeOwnFolder(path_).ok());
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_THAT(Refusal(path_), HasSubstr(absl::StrCat("chmod 700 ", path_))) << mode;
    std::filesystem::remove(path_);
  }
}

TEST_F(RuntimeFolderTest, AFolderOfAnotherUserIsRefused) {
  std::string theirs = "/";  // root's
  if (geteuid() == 0) {
    theirs = path_;
    ASSERT_TRUE(MakeOwnFolder(theirs).ok());
    ASSERT_EQ(chown(theirs.c_str(), 65534, 65534), 0);
  }
  EXPECT_THAT(Refusal(theirs), HasSubstr("belongs to user"));
}

TEST_F(RuntimeFolderTest, IsInTheFolderThatTheEnvironmentNamesIfOnlyThisUserMayWriteThere) {
  SetVariable(base_.path());
  EXPECT_EQ(RuntimeFolder().value_or(""), base_.path() + "/baton");
  ASSERT_EQ(chmod(base_.path().c_str(), 0777), 0);
  EXPECT_NE(RuntimeFolder().value_or(""), base_.path() + "/baton");
  SetVariable("relative");
  EXPECT_THAT(RuntimeFolder().value_or(""), HasSubstr(absl::StrCat(geteuid())));
}

}  // namespace
}  // namespace baton
