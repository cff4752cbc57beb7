#include "common/backend/cuda/attention/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace baton {
namespace {

// The lists of a plan, as a kernel finds them.
struct Lists {
  std::vector<DecodeTask> tasks;
  std::vector<DecodeTask> runs;
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
  EXPECT_EQ(work.counts[2], plan.run_count);
  EXPECT_EQ(work.max_runs, plan.run_count);
  const auto* const end = reinterpret_cast<const int32_t*>(work.tiles + work.counts[1]);
  EXPECT_EQ(end, plan.words.data() + plan.words.size());
  return {{work.tasks, work.tasks + work.counts[0]},
          {work.runs, work.runs + work.counts[2]},
          {work.tiles, work.tiles + work.counts[1]}};
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

AttentionTiles RandomTiles(std::mt19937& random) {
  constexpr AttentionTiles kTiles[] = {{0, 0}, {1, 1}, {8, 1}, {32, 4}, {32, 0}, {128, 16}};
  return kTiles[random() % 6];
}

// The positions of the rows.
std::vector<int> PositionsOf(const std::vector<BatchSequence>& sequences) {
  std::vector<int> positions;
  for (const BatchSequence& sequence : sequences) {
    for (int i = 0; i < sequence.row_count; ++i) positions.push_back(sequence.first_position + i);
  }
  return positions;
}

// Each (row, key up to its position) is in exactly one task, run or tile.
TEST(AttentionPlan, CoversEachKeyOfEachRowOnce) {
  std::mt19937 random(1);
  AttentionPlan plan;
  for (int round = 0; round < 300; ++round) {
    const std::vector<BatchSequence> sequences = RandomSequences(random);
    const std::vector<int> positions = PositionsOf(sequences);
    const AttentionTiles tiles = RandomTiles(random);
    const bool alike = random() % 4 == 0;
    PlanAttention(sequences, tiles, plan, alike ? AttentionCut::kAlike : AttentionCut::kByRowCount);
    const Lists lists = ListsOf(plan);
    std::vector<int> keys_done(positions.size());  // a row's tasks ascend
    std::vector<DecodeTask> tasks = lists.tasks;
    tasks.insert(tasks.end(), lists.runs.begin(), lists.runs.end());
    for (const DecodeTask& task : tasks) {
      EXPECT_GT(task.end_key, task.first_key);
      for (int row = task.row; row < task.row + task.row_count; ++row) {
        const int keys = positions[static_cast<size_t>(row)] + 1;
        int& done = keys_done[static_cast<size_t>(row)];
        EXPECT_EQ(std::min(task.first_key, keys), done);
        done = std::min(task.end_key, keys);
      }
    }
    for (const DecodeTask& run : lists.runs) EXPECT_LE(run.row_count, tiles.run_rows);
    for (const PrefillTile& tile : lists.tiles) {
      EXPECT_GT(tile.row_count, 0);
      EXPECT_LE(tile.row_count, tiles.prefill_rows);
      for (int row = tile.first_row; row < tile.first_row + tile.row_count; ++row) {
        EXPECT_EQ(keys_done[static_cast<size_t>(row)], 0);
        keys_done[static_cast<size_t>(row)] = -1;
      }
    }
    for (const BatchSequence& sequence : sequences) {
      const bool is_run = tiles.run_rows > 0 && sequence.row_count <= kMostRunRows;
      const bool tiled = sequence.row_count > 1 && tiles.prefill_rows > 0 && !is_run;
      for (int row = sequence.first_row; row < sequence.first_row + sequence.row_count; ++row) {
        const auto at = static_cast<size_t>(row);
        EXPECT_EQ(keys_done[at], tiled ? -1 : positions[at] + 1) << sequence.row_count << " rows";
      }
    }
  }
}

// The tasks of the part at `part`, then those of runs.
std::vector<DecodeTask> TasksOf(const AttentionWork& part) {
  std::vector<DecodeTask> tasks(part.tasks, part.tasks + part.max_tasks);
  tasks.insert(tasks.end(), part.runs, part.runs + part.max_runs);
  return tasks;
}

// Marks the partial results of the tasks, which have one for each of their rows, and checks where
// rows are cut.
void MarkPartials(const std::vector<DecodeTask>& tasks, const std::vector<int>& positions,
                  std::vector<bool>& used) {
  for (const DecodeTask& task : tasks) {
    const int keys = positions[static_cast<size_t>(task.row + task.row_count - 1)] + 1;
    EXPECT_EQ(task.first_key % kAttentionSegment, 0);
    EXPECT_EQ(task.end_key, std::min(task.first_key + kAttentionSegment, keys));
    ASSERT_EQ(task.first_partial < 0, keys <= kAttentionSegment);
    if (task.first_partial < 0) continue;
    for (int row = 0; row < task.row_count; ++row) {
      const auto partial = static_cast<size_t>(task.first_partial + row * AttentionSegments(keys) +
                                               task.first_key / kAttentionSegment);
      ASSERT_LT(partial, used.size());
      EXPECT_FALSE(used[partial]);
      used[partial] = true;
    }
  }
}

TEST(AttentionPlan, CutsRowsAtMultiplesOfASplitAndNumbersThePartialResults) {
  std::mt19937 random(2);
  AttentionPlan plan;
  for (int round = 0; round < 300; ++round) {
    const std::vector<BatchSequence> sequences = RandomSequences(random);
    AttentionTiles tiles = RandomTiles(random);
    while (tiles.prefill_rows == 0) tiles = RandomTiles(random);  // rows of runs are not cut there
    PlanAttention(sequences, tiles, plan);
    std::vector<bool> used(static_cast<size_t>(plan.partials));
    MarkPartials(TasksOf(plan.At(plan.words.data()).front()), PositionsOf(sequences), used);
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
    const AttentionTiles tile_rows = RandomTiles(random);
    PlanAttention(sequences, tile_rows, batch);
    const Lists all = ListsOf(batch);
    for (BatchSequence sequence : sequences) {
      const int first_row = std::exchange(sequence.first_row, 0);
      PlanAttention({sequence}, tile_rows, alone);
      const Lists own = ListsOf(alone);
      const auto ours = [&](int row) {
        return row >= first_row && row < first_row + sequence.row_count;
      };
      const auto expect_same = [&](const std::vector<DecodeTask>& in_company,
                                   const std::vector<DecodeTask>& ours_alone) {
        size_t tasks = 0;
        for (const DecodeTask& task : in_company) {
          if (!ours(task.row)) continue;
          ASSERT_LT(tasks, ours_alone.size());
          EXPECT_EQ(task.row - first_row, ours_alone[tasks].row);
          EXPECT_EQ(task.row_count, ours_alone[tasks].row_count);
          EXPECT_EQ(task.first_key, ours_alone[tasks].first_key);
          EXPECT_EQ(task.end_key, ours_alone[tasks].end_key);
          ++tasks;
        }
        EXPECT_EQ(tasks, ours_alone.size());
      };
      expect_same(all.tasks, own.tasks);
      expect_same(all.runs, own.runs);
      size_t tiles = 0;
      for (const PrefillTile& tile : all.tiles) {
        if (!ours(tile.first_row)) continue;
        ASSERT_LT(tiles, own.tiles.size());
        EXPECT_EQ(tile.first_row - first_row, own.tiles[tiles].first_row);
        EXPECT_EQ(tile.row_count, own.tiles[tiles].row_count);
        ++tiles;
      }
      EXPECT_EQ(tiles, own.tiles.size());
    }
  }
}

// The parts together are the plan without a bound, but for the numbers of the partial results.
TEST(AttentionPlan, HasAPartForAsManyPartialResultsAsThereIsMemoryFor) {
  std::mt19937 random(5);
  AttentionPlan whole;
  AttentionPlan plan;
  int most_parts = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<BatchSequence> sequences = RandomSequences(random);
    const std::vector<int> positions = PositionsOf(sequences);
    const AttentionTiles tiles = {32, 1 << random() % 5};
    const int most_partials =
        tiles.run_rows * AttentionSegments(5200) + static_cast<int>(random() % 30);
    PlanAttention(sequences, tiles, whole);
    PlanAttention(sequences, tiles, plan, AttentionCut::kByRowCount, most_partials);
    EXPECT_LE(plan.partials, most_partials);
    EXPECT_EQ(plan.part_ends.size() > 1, whole.partials > most_partials);
    EXPECT_EQ(plan.tile_count, whole.tile_count);
    std::vector<DecodeTask> tasks, runs;
    for (const AttentionWork& part : plan.At(plan.words.data())) {
      EXPECT_EQ(part.max_tiles, tasks.empty() && runs.empty() ? whole.tile_count : 0);
      tasks.insert(tasks.end(), part.tasks, part.tasks + part.max_tasks);
      runs.insert(runs.end(), part.runs, part.runs + part.max_runs);
      std::vector<bool> used(static_cast<size_t>(plan.partials));
      MarkPartials(TasksOf(part), positions, used);
    }
    most_parts = std::max(most_parts, static_cast<int>(plan.part_ends.size()));
    const Lists all = ListsOf(whole);
    const auto same = [](const DecodeTask& a, const DecodeTask& b) {
      return a.row == b.row && a.row_count == b.row_count && a.first_key == b.first_key;
    };
    EXPECT_TRUE(std::equal(tasks.begin(), tasks.end(), all.tasks.begin(), all.tasks.end(), same));
    EXPECT_TRUE(std::equal(runs.begin(), runs.end(), all.runs.begin(), all.runs.end(), same));
  }
  EXPECT_GT(most_parts, 3);
}

TEST(AttentionPlan, StaysWithinItsBound) {
  std::mt19937 random(4);
  AttentionPlan plan;
  for (int round = 0; round < 300; ++round) {
    const std::vector<BatchSequence> sequences = RandomSequences(random);
    PlanAttention(sequences, RandomTiles(random), plan);
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
