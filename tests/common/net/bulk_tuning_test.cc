#include "common/net/bulk_tuning.h"

#include <malloc.h>
#include <stdlib.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

// The settings are the process's for good, so each check has a process of its own, which ends with
// 0 if all is well.
TEST(BulkTuningDeathTest, TheEnvironmentsOwnExperimentsStay) {
  EXPECT_EXIT(
      {
        unsetenv("GRPC_EXPERIMENTS");
        TuneProcessForBulk();
        const std::string chosen = std::getenv("GRPC_EXPERIMENTS");
        setenv("GRPC_EXPERIMENTS", "none", 1);
        TuneProcessForBulk();
        const bool kept = std::getenv("GRPC_EXPERIMENTS") == std::string("none");
        std::exit(kept && chosen.find("tcp_frame_size_tuning") != std::string::npos ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // the sanitizers have their own malloc

// mallinfo2().hblks counts the allocations that have a mapping of their own, which goes back to the
// kernel when it is freed.
TEST(BulkTuningDeathTest, ABufferOfAMessageHasNoMappingOfItsOwn) {
  EXPECT_EXIT(
      {
        const size_t before = mallinfo2().hblks;
        std::unique_ptr<char[]> untuned(new char[8 << 20]);
        const size_t with_untuned = mallinfo2().hblks;
        TuneProcessForBulk();
        std::unique_ptr<char[]> tuned(new char[8 << 20]);
        untuned[0] = tuned[0] = 1;
        std::exit(with_untuned == before + 1 && mallinfo2().hblks == with_untuned ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// What is freed at the end of the heap stays there for the next message.
TEST(BulkTuningDeathTest, FreedBuffersStayForTheNextMessages) {
  EXPECT_EXIT(
      {
        TuneProcessForBulk();
        std::unique_ptr<char[]> buffer(new char[24 << 20]);
        const size_t with_buffer = mallinfo2().arena;
        buffer.reset();
        std::exit(with_buffer >= size_t{24} << 20 && mallinfo2().arena == with_buffer ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

#endif

}  // namespace
}  // namespace baton
