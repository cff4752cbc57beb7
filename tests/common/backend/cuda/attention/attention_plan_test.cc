#include "common/backend/cuda/attention/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace baton {
namespace {

// The lists of a plan, as a kernel finds them.
struct Lists {
  std::vector<DecodeTask> tasks;
  std::vector<PrefillTile> tiles;
};

Lists ListsOf(const AttentionPlan& plan) {
  const std::vector<AttentionWork> parts = plan.At(plan.words.data());
  EXPECT_EQ(parts.size(), 1u);
  const AttentionWork& work = parts.front();
  EXPECT_EQ(work.counts[0], plan.task_count);
  EXPECT_EQ(work.counts[1], plan.tile_count);
  EXPECT_EQ(work.max_tasks, plan.task_count);
  EXPECT_EQ(work.max_tiles, plan.tile_count);
  const auto* const end = reinterpret_cast<const int32_t*>(work.tiles + work.counts[1]);
  EXPECT_EQ(end, plan.words.data() + plan.words.size());
  return {{work.tasks, work.tasks + work.counts[0]}, {work.tiles, work.tiles + work.counts[1]}};
}

std::vector<BatchSequence> RandomSequences(std::mt19937& random) {
  std::vector<BatchSequence> sequences;
  int row = 0;
  for (int count = static_cast<int>(random() % 9); count > 0; --count) {
    const int sizes[] = {1, 1, 1, 2, 15, 16, 17, 200};
    const int positions[] = {0, 1, 254, 255, 256, 257, 511, 5000};
    sequences.push_back({row, sizes[random() % 8], positions[random() % 8], nullptr});
    row += sequences.back().row_count;
  }
  return sequences;
}

constexpr int kTileRows[] = {0, 1, 8, 32, 128};

// Each (row, key up to its position) is in exactly one task or tile.
TEST(AttentionPlan, CoversEachKeyOfEachRowOnce) {
  std::mt19937 random(1);
  AttentionPlan plan;
  for (int round = 0; round < 300; ++round) {
    const std::vector<BatchSequence> sequences = RandomSequences(random);
    const int tile_rows = kTileRows[random() % 5];
    PlanAttention(sequences, tile_rows, plan);
    const Lists lists = ListsOf(plan);
    std::map<int, int> keys_done;  // row -> keys done; a row's tasks ascend
    for (const DecodeTask& task : lists.tasks) {
      EXPECT_EQ(task.first_key, keys_done[task.row]);
      EXPECT_GT(task.end_key, task.first_key);
      keys_done[task.row] = task.end_key;
    }
    for (const PrefillTile& tile : lists.tiles) {
      EXPECT_GT(tile.row_count, 0);
      EXPECT_LE(tile.row_count, tile_rows);
      for (int row = tile.first_row; row < tile.first_row + tile.row_count; ++row) {
        EXPECT_EQ(keys_done.count(row), 0u);
        keys_done[row] = -1;
      }
    }
    size_t rows = 0;
    for (const BatchSequence& sequence : sequences) {
      rows += static_cast<size_t>(sequence.row_count);
      for (int i = 0; i < sequence.row_count; ++i) {
        const bool tiled = sequence.row_count > 1 && tile_rows > 0;
        EXPECT_EQ(keys_done[sequence.first_row + i], tiled ? -1 : sequence.first_position + i + 1);
      }
    }
    EXPECT_EQ(keys_done.size(), rows);
  }
}

TEST(AttentionPlan, CutsSingleRowsAtMultiplesOfASplitAndNumbersThePartialResults) {
  std::mt19937 random(2);
  AttentionPlan plan;
  for (int round = 0; round < 300; ++round) {
    const std::vector<BatchSequence> sequences = RandomSequences(random);
    PlanAttention(sequences, kTileRows[random() % 5], plan);
    std::map<int, int> single_rows;  // row -> number of keys
    for (const BatchSequence& sequence : sequences) {
      if (sequence.row_count == 1) single_rows[sequence.first_row] = sequence.first_position + 1;
    }
    std::vector<bool> used(static_cast<size_t>(plan.partials));
    for (const DecodeTask& task : ListsOf(plan).tasks) {
      const auto row = single_rows.find(task.row);
      if (row == single_rows.end()) {
        EXPECT_LT(task.first_partial, 0);
        continue;
      }
      EXPECT_EQ(task.first_key % kAttentionSegment, 0);
      EXPECT_EQ(task.end_key, std::min(task.first_key + kAttentionSegment, row->second));
      EXPECT_EQ(task.first_partial < 0, row->second <= kAttentionSegment);
      if (task.first_partial < 0) continue;
      const auto partial =
          static_cast<size_t>(task.first_partial + task.first_key / kAttentionSegment);
      ASSERT_LT(partial, used.size());
      EXPECT_FALSE(used[partial]);
      used[partial] = true;
    }
    EXPECT_EQ(std::count(used.begin(), used.end(), false), 0);
  }
}

// Tiles count from the sequence's first row, so the batch does not change where they begin.
TEST(AttentionPlan, PlansASequenceAlikeInAnyCompany) {
  std::mt19937 random(3);
  AttentionPlan alone;
  AttentionPlan batch;
  for (int round = 0; round < 100; ++round) {
    const std::vector<BatchSequence> sequences = RandomSequences(random);
    const int tile_rows = kTileRows[random() % 5];
    PlanAttention(sequences, tile_rows, batch);
    const Lists all = ListsOf(batch);
    for (BatchSequence sequence : sequences) {
      const int first_row = std::exchange(sequence.first_row, 0);
      PlanAttention({sequence}, tile_rows, alone);
      const Lists own = ListsOf(alone);
      const auto ours = [&](int row) {
        return row >= first_row && row < first_row + sequence.row_count;
      };
      size_t tasks = 0;
      for (const DecodeTask& task : all.tasks) {
        if (!ours(task.row)) continue;
        ASSERT_LT(tasks, own.tasks.size());
        EXPECT_EQ(task.row - first_row, own.tasks[tasks].row);
        EXPECT_EQ(task.first_key, own.tasks[tasks].first_key);
        EXPECT_EQ(task.end_key, own.tasks[tasks].end_key);
        ++tasks;
      }
      size_t tiles = 0;
      for (const PrefillTile& tile : all.tiles) {
        if (!ours(tile.first_row)) continue;
        ASSERT_LT(tiles, own.tiles.size());
        EXPECT_EQ(tile.first_row - first_row, own.tiles[tiles].first_row);
        EXPECT_EQ(tile.row_count, own.tiles[tiles].row_count);
        ++tiles;
      }
      EXPECT_EQ(tasks, own.tasks.size());
      EXPECT_EQ(tiles, own.tiles.size());
    }
  }
}

// The parts together are the plan without a bound, but for the numbers of the partial results.
TEST(AttentionPlan, HasAPartForAsManyPartialResultsAsThereIsMemoryFor) {
  std::mt19937 random(5);
  AttentionPlan whole;
  AttentionPlan plan;
  for (int round = 0; round < 300; ++round) {
    const std::vector<BatchSequence> sequences = RandomSequences(random);
    const int tile_rows = kTileRows[random() % 5];
    const int most_partials = AttentionSegments(5200) + static_cast<int>(random() % 30);
    PlanAttention(sequences, tile_rows, whole);
    PlanAttention(sequences, tile_rows, plan, AttentionCut::kByRowCount, most_partials);
    EXPECT_LE(plan.partials, most_partials);
    EXPECT_EQ(plan.part_ends.size() > 1, whole.partials > most_partials);
    const Lists all = ListsOf(whole);
    const DecodeTask* expected = all.tasks.data();
    const std::vector<AttentionWork> parts = plan.At(plan.words.data());
    for (const AttentionWork& part : parts) {
      EXPECT_EQ(part.max_tiles, &part == &parts.front() ? whole.tile_count : 0);
      int partials = 0;
      for (int i = 0; i < part.max_tasks; ++i, ++expected) {
        const DecodeTask& task = part.tasks[i];
        EXPECT_EQ(task.row, expected->row);
        EXPECT_EQ(task.first_key, expected->first_key);
        EXPECT_EQ(task.end_key, expected->end_key);
        ASSERT_EQ(task.first_partial < 0, expected->first_partial < 0);
        if (task.first_partial < 0) continue;
        EXPECT_EQ(task.first_partial + task.first_key / kAttentionSegment, partials++);
      }
      EXPECT_LE(partials, plan.partials);
    }
    EXPECT_EQ(expected, all.tasks.data() + all.tasks.size());
  }
}

TEST(AttentionPlan, StaysWithinItsBound) {
  std::mt19937 random(4);
  AttentionPlan plan;
  for (int round = 0; round < 300; ++round) {
    const std::vector<BatchSequence> sequences = RandomSequences(random);
    PlanAttention(sequences, kTileRows[random() % 5], plan);
    int rows = 0;
    int tokens = 0;
    for (const BatchSequence& sequence : sequences) {
      rows += sequence.row_count;
      tokens = std::max(tokens, sequence.first_position + sequence.row_count);
    }
    EXPECT_LE(plan.bytes(),
              MaxAttentionPlanBytes(rows, static_cast<int>(sequences.size()), tokens));
  }
}

}  // namespace
}  // namespace baton
