#include "common/flags/command.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ProgramFolder, HoldsThisProgramWhateverTheFolderOfTheCaller) {
  const std::string folder = ProgramFolder();
  EXPECT_TRUE(std::filesystem::exists(folder + "/flags_test")) << folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path("/");
  EXPECT_EQ(ProgramFolder(), folder);
  std::filesystem::current_path(before);
}

TEST(HelperProgram, IsBesideThisProgramElseWhereItIsInstalled) {
  namespace fs = std::filesystem;
  const fs::path folder = ProgramFolder();
  EXPECT_EQ(HelperProgram("flags_test"), (folder / "flags_test").string());
  const std::string name = "helper-of-" + std::to_string(getpid());
  EXPECT_EQ(HelperProgram(name), (folder / name).string());
  const fs::path installed = folder.parent_path() / "libexec" / "baton" / name;
  fs::create_directories(installed.parent_path());
  std::ofstream(installed).put('\n');
  EXPECT_EQ(HelperProgram(name), installed.string());
  fs::remove(installed);
}

}  // namespace
}  // namespace baton
