#include "common/base/secret_mode.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class SecretModeTest : public ::testing::Test {
 protected:
  // What is written about a file of that mode, found at `path`.
  std::string Warning(mode_t mode, const std::string& path) const {
    chmod(file_.c_str(), mode);
    ::testing::internal::CaptureStderr();
    WarnOfSecretMode("--tls-key", path);
    return ::testing::internal::GetCapturedStderr();
  }

  const TemporaryFolder folder_{"secret_mode_test"};
  const std::string file_ = folder_.File("a.key", "secret");
};

TEST_F(SecretModeTest, TheOwnerAloneAndReadersOfItsGroupAreRight) {
  for (const mode_t mode : {0400, 0600, 0440, 0640}) {
    EXPECT_EQ(SecretModeFault(mode), "");
    EXPECT_EQ(Warning(mode, file_), "");
  }
}

TEST_F(SecretModeTest, AFileThatOthersMayReadOrReplaceIsOneLineWithFileModeAndRemedy) {
  const std::string open = Warning(0644, file_);
  EXPECT_THAT(open, HasSubstr(absl::StrCat("--tls-key ", file_,
                                           ": mode 0644: everybody may read it; "
                                           "chmod 600 ",
                                           file_)));
  EXPECT_EQ(std::count(open.begin(), open.end(), '\n'), 1);
  for (const mode_t mode : {0660, 0602, 0666}) {
    EXPECT_THAT(Warning(mode, file_), HasSubstr("others may replace it")) << mode;
  }
}

TEST_F(SecretModeTest, AFileInAVolumeOfKubernetesIsMendedByTheVolume) {
  std::filesystem::create_directory(folder_.path() + "/..2026");
  std::filesystem::rename(file_, folder_.path() + "/..2026/a.key");
  std::filesystem::create_symlink("..2026", folder_.path() + "/..data");
  std::filesystem::create_symlink("..data/a.key", file_);
  EXPECT_EQ(Warning(0440, file_), "");
  EXPECT_THAT(Warning(0644, file_), EndsWith("give its volume in the pod `defaultMode: 0440`\n"));
}

TEST_F(SecretModeTest, AFileOfKeysIsItsOwnersAlone) {
  for (const mode_t mode : {0400, 0600, 0700}) EXPECT_EQ(PrivateModeFault(mode), "") << mode;
  EXPECT_EQ(PrivateModeFault(0640), "its group may read it");
  EXPECT_EQ(PrivateModeFault(0604), "everybody may read it");
  EXPECT_EQ(PrivateModeFault(0620), "others may replace it");
  EXPECT_EQ(PrivateModeFault(0601), "others have rights to it");
  chmod(file_.c_str(), 0600);
  EXPECT_TRUE(CheckPrivateMode(file_).ok());
  chmod(file_.c_str(), 0640);
  EXPECT_EQ(std::string(CheckPrivateMode(file_).message()),
            absl::StrCat(file_, ": mode 0640: its group may read it; chmod 600 ", file_));
  EXPECT_TRUE(CheckPrivateMode(folder_.path() + "/none").ok());
}

TEST_F(SecretModeTest, OfAFileThatIsNotThereNothingIsWritten) {
  EXPECT_EQ(Warning(0644, folder_.path() + "/none"), "");
}

}  // namespace
}  // namespace baton
