#include "common/net/memory_watch.h"

#include "gtest/gtest.h"

#include "common/base/clock.h"

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

}  // namespace
}  // namespace baton
