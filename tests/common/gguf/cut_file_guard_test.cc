#include "common/gguf/cut_file_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <barrier>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

// A mapping of two pages of a file that has only one any more.
class CutFile {
 public:
  CutFile() {
    std::string path = testing::TempDir() + "cut_file_XXXXXX";
    const int fd = mkstemp(path.data());
    unlink(path.c_str());
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(2 * page_bytes_)), 0);
    map_ = mmap(nullptr, 2 * page_bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
    EXPECT_NE(map_, MAP_FAILED);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(page_bytes_)), 0);
    close(fd);
  }
  ~CutFile() { munmap(map_, 2 * page_bytes_); }
  CutFile(const CutFile&) = delete;
  CutFile& operator=(const CutFile&) = delete;
  absl::Span<const uint8_t> bytes() const {
    return {static_cast<const uint8_t*>(map_), 2 * page_bytes_};
  }
  void ReadTheEnd() const { (void)*static_cast<const volatile uint8_t*>(&bytes().back()); }

 private:
  const size_t page_bytes_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* map_ = nullptr;
};

TEST(CutFileGuardDeathTest, ACutFileEndsTheProcessWithALineAndACode) {
  const CutFile file;
  const CutFileGuard guard(file.bytes(), "/models/m.gguf");
  EXPECT_EXIT(
      file.ReadTheEnd(), testing::ExitedWithCode(kExitCutFile),
      "^/models/m.gguf: was cut short or written to while it was read; start again with a whole "
      "file, and replace model files by rename\n$");
  EXPECT_EXIT(guard.EndProcess(), testing::ExitedWithCode(kExitCutFile), "^/models/m.gguf: was");
}

TEST(CutFileGuardDeathTest, ItsLineShowsTheFilesNameEscaped) {
  const CutFile file;
  const CutFileGuard guard(file.bytes(), "m\x1b[2J");
  EXPECT_EXIT(file.ReadTheEnd(), testing::ExitedWithCode(kExitCutFile), "^m.u001b.2J: was cut");
}

// A model is loaded by all threads.
TEST(CutFileGuardDeathTest, ThreadsThatMeetTheCutTogetherSayItOnce) {
  const CutFile file;
  const CutFileGuard guard(file.bytes(), "once");
  const auto all_read = [&] {
    constexpr int kThreads = 8;
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        file.ReadTheEnd();
      });
    }
    threads.front().join();
  };
  for (int round = 0; round < 20; ++round) {
    EXPECT_EXIT(all_read(), testing::ExitedWithCode(kExitCutFile), "^once: was cut[^\n]*\n$");
  }
}

TEST(CutFileGuardDeathTest, AMovedGuardGoesOn) {
  const CutFile file;
  std::optional<CutFileGuard> first(std::in_place, file.bytes(), "moved");
  const CutFileGuard second = *std::move(first);
  first.reset();  // NOLINT(bugprone-use-after-move): what is left of it guards nothing
  EXPECT_EXIT(file.ReadTheEnd(), testing::ExitedWithCode(kExitCutFile), "^moved: was cut");
}

TEST(CutFileGuardDeathTest, AnotherBusErrorDoesWhatItDid) {
  const CutFile guarded;
  const CutFile other;
  const CutFileGuard guard(guarded.bytes(), "guarded");
  { const CutFileGuard gone(other.bytes(), "gone"); }
#if !defined(__SANITIZE_ADDRESS__)  // ASan reports and exits instead
  EXPECT_EXIT(other.ReadTheEnd(), testing::KilledBySignal(SIGBUS), "^$");
  EXPECT_EXIT(raise(SIGBUS), testing::KilledBySignal(SIGBUS), "^$");
#endif
}

TEST(CutFileGuardDeathTest, MoreFilesThanItHasPlacesForAreReadUnguarded) {
  const CutFile file;
  std::vector<CutFileGuard> guards;
  for (int i = 0; i < CutFileGuard::kMax + 1; ++i) guards.emplace_back(file.bytes(), "many");
  guards.pop_back();
  EXPECT_EXIT(file.ReadTheEnd(), testing::ExitedWithCode(kExitCutFile), "^many");
}

}  // namespace
}  // namespace baton
