#include "common/backend/cuda/pass/pass_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace baton {
namespace {

TEST(PassShape, HasFewNumbersOfRowsNeverMuchAboveTheAskedFor) {
  std::set<int> all;
  int last = 0;
  for (int rows = 1; rows <= 1024; ++rows) {
    const int recorded = RecordedRows(rows);
    EXPECT_GE(recorded, rows);
    EXPECT_LE(recorded, rows + 31);
    EXPECT_GE(recorded, last);
    EXPECT_EQ(RecordedRows(recorded), recorded);
    last = recorded;
    all.insert(recorded);
  }
  const std::vector<int> first(all.begin(), all.upper_bound(64));
  EXPECT_THAT(first, testing::ElementsAre(1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64));
  EXPECT_LT(all.size(), 50u);
}

TEST(PassShape, IsAnotherWhereQueriesAreScaled) {
  const PassShape plain = {.rows = 4};
  const PassShape scaled = {.rows = 4, .scales_queries = true};
  EXPECT_TRUE(plain < scaled || scaled < plain);
}

TEST(PassShape, HasRoomForItsLongestTableAndAllTasksAndChangesSeldom) {
  std::set<std::pair<int, int>> shapes;
  for (int blocks = 1; blocks <= 1000; ++blocks) {
    const std::vector<BatchSequence> sequences = {{.table_entries = 1}, {.table_entries = blocks}};
    const int tasks = 1 + blocks / 8;
    const PassShape shape = RecordedShape(4, sequences, tasks);
    EXPECT_EQ(shape.rows, 4);
    EXPECT_GE(shape.table_stride, blocks);
    EXPECT_GE(shape.max_tasks, tasks);
    EXPECT_GE(shape.max_tasks, shape.rows);
    shapes.insert({shape.table_stride, shape.max_tasks});
  }
  EXPECT_LT(shapes.size(), 20u);
}

}  // namespace
}  // namespace baton
