#include "common/gguf/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() {
    std::string folder = testing::TempDir() + "mapped_file_XXXXXX";
    folder_ = mkdtemp(folder.data());
  }
  ~MappedFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
    return Path(name);
  }
  static std::string TextOf(const MappedFile& file) {
    return {file.bytes().begin(), file.bytes().end()};
  }

  std::string folder_;
};

// The pages in this process's memory of the mapping that begins there.
size_t ResidentPages(const uint8_t* address) {
  const std::string begin = absl::StrFormat("%x-", reinterpret_cast<uintptr_t>(address));
  std::ifstream mappings("/proc/self/smaps");
  std::string line;
  while (std::getline(mappings, line) && !line.starts_with(begin)) continue;
  while (std::getline(mappings, line) && !line.starts_with("Rss:")) continue;
  return std::strtoull(line.c_str() + 4, nullptr, 10) * 1024 /
         static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(MappedFileTest, HasTheBytesOfTheFileWhetherReadAheadOrNot) {
  const std::string path = Write("f", std::string("a\0b", 3));
  for (const bool will_read_all : {false, true}) {
    const auto file = MappedFile::Open(path, will_read_all);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(TextOf(*file), std::string("a\0b", 3));
  }
}

TEST_F(MappedFileTest, TheBytesKeepTheirAddressWhenItIsMoved) {
  auto first = MappedFile::Open(Write("f", "first"), false);
  auto second = MappedFile::Open(Write("g", "second"), false);
  ASSERT_TRUE(first.ok() && second.ok());
  const uint8_t* const address = first->bytes().data();
  MappedFile moved = *std::move(first);
  EXPECT_EQ(moved.bytes().data(), address);
  *second = std::move(moved);
  EXPECT_EQ(second->bytes().data(), address);
  EXPECT_EQ(TextOf(*second), "first");
}

TEST_F(MappedFileTest, GivesTheMapBackWithItself) {
  const uint8_t* address = nullptr;
  {
    const auto file = MappedFile::Open(Write("f", "text"), false);
    ASSERT_TRUE(file.ok());
    address = file->bytes().data();
  }
  unsigned char resident = 0;
  EXPECT_EQ(mincore(const_cast<uint8_t*>(address), 1, &resident), -1);  // nothing is mapped there
}

// A page of which only a piece is given back stays, because its rest may be read.
TEST_F(MappedFileTest, ReleasesOnlyWholePagesInsideThePart) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto file = MappedFile::Open(Write("f", std::string(4 * page, 'x')), false);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto read_all = [&] {
    size_t sum = 0;
    for (const uint8_t byte : file->bytes()) sum += byte;
    return sum;
  };
  const size_t sum = read_all();
  const uint8_t* const begin = file->bytes().data();
  ASSERT_EQ(ResidentPages(begin), 4u);
  file->Release(file->bytes().subspan(1, page));
  EXPECT_EQ(ResidentPages(begin), 4u);
  file->Release(file->bytes().subspan(1, 3 * page - 2));
  EXPECT_EQ(ResidentPages(begin), 3u);
  file->Release(file->bytes());
  EXPECT_EQ(ResidentPages(begin), 0u);
  EXPECT_EQ(read_all(), sum);
}

using MappedFileDeathTest = MappedFileTest;

// The rest of the last page then reads as zeros, without a signal.
TEST_F(MappedFileDeathTest, AFileThatWasCutWithinItsLastPageEndsTheProcessBeforeItsBytesAreUsed) {
  const std::string path = Write("f", "text");
  EXPECT_EXIT(
      {
        const auto file = MappedFile::Open(path, false);
        std::filesystem::resize_file(path, 2);
      },
      testing::ExitedWithCode(kExitCutFile), "^" + path + ": was cut short .* by rename\n$");
}

TEST_F(MappedFileDeathTest, AFileThatWasWrittenToEndsTheProcessBeforeItsBytesAreUsed) {
  const std::string path = Write("f", "text");
  // Both writes may come within one tick of the file system's clock.
  std::filesystem::last_write_time(path, {});
  EXPECT_EXIT(
      {
        const auto file = MappedFile::Open(path, false);
        Write("f", "next");
      },
      testing::ExitedWithCode(kExitCutFile), "^" + path + ": was cut short or written to");
}

TEST_F(MappedFileTest, RefusesWhatIsNoFileWithBytesAndSaysTheRemedy) {
  const auto error = [](const std::string& path) {
    return std::string(MappedFile::Open(path, false).status().message());
  };
  EXPECT_EQ(
      error(Path("none")),
      Path("none") +
          ": cannot be opened (No such file or directory); check the path and the permissions");
  EXPECT_EQ(error(folder_), folder_ + ": is a directory; give the path of a file inside it");
  EXPECT_EQ(error(Write("empty", "")), Path("empty") + ": is empty; fetch the file again");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error(Path("pipe")),
            Path("pipe") + ": is not a regular file; give the path of a file on disk");
}

TEST_F(MappedFileTest, TheCodeSaysWhetherTheFileIsMissing) {
  EXPECT_EQ(MappedFile::Open(Path("none"), false).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(folder_, false).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
