#include "common/net/memory_watch.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/base/clock.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

TEST(MemoryWatch, TellsByThePartThatIsTakenWhatIsToBeDone) {
  uint64_t own = 0;
  MemoryWatch watch(
      [&own] { return MemoryUse{.limit_bytes = 1000, .group_bytes = own, .own_bytes = own}; });
  const absl::Time now = SteadyNow();
  EXPECT_EQ(watch.level(), MemoryLevel::kEnough);
  for (const auto& [bytes, level] :
       {std::pair{849, MemoryLevel::kEnough}, std::pair{850, MemoryLevel::kShort},
        std::pair{949, MemoryLevel::kShort}, std::pair{950, MemoryLevel::kFull},
        std::pair{100, MemoryLevel::kEnough}}) {
    own = static_cast<uint64_t>(bytes);
    EXPECT_EQ(watch.Look(now), level) << bytes;
    EXPECT_EQ(watch.level(), level) << bytes;
  }
}

TEST(MemoryWatch, LooksAgainAfterGivingFreedMemoryBackOnceASecond) {
  int looks = 0;
  MemoryWatch watch([&looks] {
    ++looks;
    return MemoryUse{.limit_bytes = 10, .group_bytes = 9, .own_bytes = 9};
  });
  const absl::Time now = SteadyNow();
  watch.Look(now);
  EXPECT_EQ(looks, 2);
  watch.Look(now + absl::Milliseconds(999));
  EXPECT_EQ(looks, 3);
  watch.Look(now + absl::Seconds(1));
  EXPECT_EQ(looks, 5);
}

TEST(MemoryWatch, GivesMuchFreedMemoryBackOnceAlsoWhereThereIsEnough) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  uint64_t own = 100 * kMiB, spare = 0;
  int heap_looks = 0, looks = 0;
  MemoryWatch watch(
      [&] {
        ++looks;
        return MemoryUse{.limit_bytes = 0, .group_bytes = own, .own_bytes = own};
      },
      [&] {
        ++heap_looks;
        return spare;
      });
  absl::Time now = SteadyNow();
  const auto trims = [&] {  // whether memory was given back: then the use is read again
    looks = 0;
    watch.Look(now += absl::Seconds(10));
    return looks == 2;
  };
  EXPECT_FALSE(trims()) << "all of it is in use";
  spare = 40 * kMiB;
  EXPECT_TRUE(trims());
  EXPECT_FALSE(trims()) << "no more could be given back";
  own = 120 * kMiB;
  EXPECT_FALSE(trims()) << "it has grown by little";
  own = 140 * kMiB;
  EXPECT_TRUE(trims());
  own = 60 * kMiB;
  EXPECT_FALSE(trims());
  own = 100 * kMiB;
  EXPECT_TRUE(trims()) << "it was smaller meanwhile";
  own = 200 * kMiB;
  spare = 0;
  watch.Look(now += absl::Seconds(10));
  heap_looks = 0;
  watch.Look(now + absl::Milliseconds(100));
  EXPECT_EQ(heap_looks, 0) << "which takes malloc's locks";
}

TEST(MemoryWatch, WithoutALimitOfItsGroupAQuarterOfTheMachineIsTheLimit) {
  const TemporaryFolder folder("memory_watch");
  std::filesystem::create_directories(folder.path() + "/proc/self");
  std::ofstream(folder.path() + "/proc/meminfo") << "MemTotal: 4000 kB\nMemAvailable: 1 kB\n";
  std::ofstream(folder.path() + "/proc/self/status") << "RssAnon: 900 kB\n";
  const MemoryUse use = MemoryUseReader(MemoryGroups(folder.path()))();
  EXPECT_EQ(use.limit_bytes, 1000u * 1024);
  EXPECT_EQ(use.part(), 0.9) << "of this process alone";
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // the sanitizers have their own malloc
TEST(MemoryWatch, FreedMemoryIsSpare) {
  std::vector<std::unique_ptr<std::string>> small;
  for (int i = 0; i < 10000; ++i) small.push_back(std::make_unique<std::string>(1000, 'a'));
  const uint64_t before = SpareHeapBytes();
  for (size_t i = 0; i < small.size(); i += 2) small[i].reset();
  EXPECT_GE(SpareHeapBytes(), before + 1000 * 4000);
}
#endif

}  // namespace
}  // namespace baton
