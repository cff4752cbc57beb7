#include "client/doctor/machine_files.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MachineFiles, AreReadWholeOrWithoutTheSpaceAroundThem) {
  const TemporaryFolder folder("machine_files");
  const std::string path = folder.File("file", " performance mode \n");
  EXPECT_EQ(ReadMachineFile(path), " performance mode \n");
  EXPECT_EQ(ReadMachineLine(path), "performance mode");
  const std::string huge = folder.File("huge", std::string((size_t{1} << 20) + 1, 'x'));
  EXPECT_EQ(ReadMachineFile(huge).size(), size_t{1} << 20);
}

TEST(MachineFiles, MayBeMissing) {
  const TemporaryFolder folder("machine_files_missing");
  const std::string path = folder.path() + "/none";
  EXPECT_EQ(ReadMachineFile(path), "");
  EXPECT_EQ(ReadMachineLine(folder.path()), "") << "it is a folder";
  EXPECT_FALSE(ReadMachineNumber(path).has_value());
  EXPECT_THAT(NumberedEntries(path, "cpu"), IsEmpty());
}

TEST(MachineFiles, TheFirstNumberIsRead) {
  const TemporaryFolder folder("machine_files_number");
  const auto number = [&](const std::string& text) {
    return ReadMachineNumber(folder.File("number", text));
  };
  EXPECT_EQ(number("4096\n"), 4096u);
  EXPECT_EQ(number("100000 200000\n"), 100000u);
  EXPECT_EQ(number("\t7\t8"), 7u);
  EXPECT_EQ(number("18446744073709551615"), ~uint64_t{0});
  EXPECT_EQ(number("max 100000\n"), std::nullopt);
  EXPECT_EQ(number(""), std::nullopt);
}

TEST(MachineFiles, NumberedEntriesAreInTheOrderOfTheirNumbers) {
  const TemporaryFolder folder("machine_files_entries");
  for (const char* name : {"cpu10", "cpu2", "cpufreq", "cpu", "node1", "cpu2x"}) {
    std::filesystem::create_directory(folder.path() + "/" + name);
  }
  EXPECT_THAT(NumberedEntries(folder.path(), "cpu"), ElementsAre("cpu2", "cpu10"));
  EXPECT_THAT(NumberedEntries(folder.path(), "node"), ElementsAre("node1"));
}

}  // namespace
}  // namespace baton
