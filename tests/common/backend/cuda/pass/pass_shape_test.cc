#include "common/backend/cuda/pass/pass_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "common/backend/cuda/device/attention_segments.h"

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

TEST(PassShape, HasRoomForAllTasksAndChangesSeldom) {
  std::set<int> shapes;
  for (int tasks = 1; tasks <= 1000; ++tasks) {
    const PassShape shape = RecordedShape(4, tasks);
    EXPECT_EQ(shape.rows, 4);
    EXPECT_GE(shape.max_tasks, tasks);
    EXPECT_GE(shape.max_tasks, shape.rows);
    shapes.insert(shape.max_tasks);
  }
  EXPECT_LT(shapes.size(), 10u);
}

TEST(PassShape, KindsAreTheShapesOfAllPassesEachOnce) {
  struct Limits {
    int sequences;
    int tokens;
    int64_t all_tokens;
  };
  for (const auto& [most_sequences, most_tokens, all_tokens] : {Limits{1, 1, 100},
                                                                {3, 256, 768},
                                                                {13, 257, 5000},
                                                                {64, 4096, 30'000},
                                                                {100, 3000, 1 << 20},
                                                                {256, 131'072, 800'000}}) {
    std::set<PassShape> shapes;
    const std::vector<RecordedKind> kinds = KindsOfShapes(most_sequences, most_tokens, all_tokens);
    for (const RecordedKind& kind : kinds) {
      EXPECT_EQ(RecordedRows(kind.rows), kind.rows);
      const auto tasks = static_cast<int>(kind.rows + kind.tokens / kAttentionSegment);
      shapes.insert(RecordedShape(kind.rows, tasks));
    }
    EXPECT_EQ(shapes.size(), kinds.size());
    for (int sequences = 1; sequences <= most_sequences; ++sequences) {
      const int most_tasks = MostTasks(sequences, most_tokens, all_tokens);
      for (int tasks = sequences; tasks <= most_tasks; tasks += 1 + tasks / 40) {
        const PassShape shape = RecordedShape(RecordedRows(sequences), tasks);
        ASSERT_TRUE(shapes.contains(shape)) << sequences << " sequences, " << tasks << " tasks";
      }
    }
  }
}

}  // namespace
}  // namespace baton
