#include "tests/common/engine/shared_blocks_model.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(SharedBlocks, AgreeWithAPlainModelOver100000RandomOperations) {
  SharedBlocksFigures figures;
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    SharedBlocksModel(seed, seed % 3 == 2, figures).Run(2000);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(figures.cached_tokens, 10000);
  EXPECT_GT(figures.preempted, 200);
  EXPECT_GT(figures.evicted, 3000);
  EXPECT_GT(figures.failed, 100);
  EXPECT_GT(figures.broken, 300);
  EXPECT_GT(figures.pinned_tokens, 4000);
  EXPECT_GT(figures.resumed_tokens, 2000);
  EXPECT_GT(figures.resumed_in_a_block, 20);
}

}  // namespace
}  // namespace baton
