#include "common/flags/command.h"

#include <unistd.h>

#include <filesystem>
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

}  // namespace
}  // namespace baton
