#include "common/backend/cuda/attention/attention_plan.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr size_t kHeaderWords = 4;
constexpr size_t kTaskWords = sizeof(DecodeTask) / sizeof(int32_t);

template <class Item>
void Append(const Item& item, std::vector<int32_t>& words) {
  const size_t size = words.size();
  words.resize(size + sizeof(Item) / sizeof(int32_t));
  std::memcpy(words.data() + size, &item, sizeof(Item));
}

// Adds the tasks of rows [first, first + count) of the sequence. `partials`: those of the last part,
// so far.
void AddSplits(const BatchSequence& sequence, int first, int count, int most_partials,
               AttentionPlan& plan, int& partials) {
  const int keys = sequence.first_position + first + count;
  const int splits = AttentionSegments(keys);
  const bool whole = splits == 1;
  const int results = whole ? 0 : count * splits;
  BATON_CHECK(results <= most_partials, "memory for the partial results of a task's rows");
  if (results > most_partials - partials) {
    plan.part_ends.push_back({plan.task_count, plan.run_count});
    partials = 0;
  }
  for (int split = 0; split < splits; ++split) {
    Append(DecodeTask{.row = sequence.first_row + first,
                      .row_count = count,
                      .first_key = split * kAttentionSegment,
                      .end_key = std::min((split + 1) * kAttentionSegment, keys),
                      .first_partial = whole ? -1 : partials},
           plan.words);
  }
  (sequence.row_count == 1 ? plan.task_count : plan.run_count) += splits;
  partials += results;
  plan.partials = std::max(plan.partials, partials);
}

void AddWholeRows(const BatchSequence& sequence, AttentionPlan& plan) {
  for (int row = 0; row < sequence.row_count; ++row) {
    Append(DecodeTask{.row = sequence.first_row + row,
                      .row_count = 1,
                      .first_key = 0,
                      .end_key = sequence.first_position + row + 1,
                      .first_partial = -1},
           plan.words);
  }
  plan.task_count += sequence.row_count;
}

// Adds the last tile first: it sees the most keys, and so takes the longest.
void AddTiles(const BatchSequence& sequence, int tile_rows, AttentionPlan& plan) {
  const int tiles = (sequence.row_count + tile_rows - 1) / tile_rows;
  for (int tile = tiles; tile-- > 0;) {
    const int begin = tile * tile_rows;
    Append(PrefillTile{.first_row = sequence.first_row + begin,
                       .row_count = std::min(tile_rows, sequence.row_count - begin)},
           plan.words);
  }
  plan.tile_count += tiles;
}

}  // namespace

std::vector<AttentionWork> AttentionPlan::At(const void* device) const {
  const auto* const at = static_cast<const int32_t*>(device);
  const auto* const tasks = reinterpret_cast<const DecodeTask*>(at + kHeaderWords);
  const DecodeTask* const runs = tasks + task_count;
  std::vector<AttentionWork> parts;
  PartEnd begin = {0, 0};
  for (const PartEnd& end : part_ends) {
    parts.push_back({.counts = at,
                     .tasks = tasks + begin.tasks,
                     .runs = runs + begin.runs,
                     .tiles = reinterpret_cast<const PrefillTile*>(runs + run_count),
                     .max_tasks = end.tasks - begin.tasks,
                     .max_tiles = parts.empty() ? tile_count : 0,
                     .max_runs = end.runs - begin.runs,
                     .cut = cut});
    begin = end;
  }
  return parts;
}

void PlanAttention(absl::Span<const BatchSequence> sequences, const AttentionTiles& tiles,
                   AttentionPlan& plan, AttentionCut cut, int most_partials) {
  BATON_CHECK(tiles.prefill_rows >= 0 && tiles.run_rows >= 0, "rows of a tile");
  plan.words.assign(kHeaderWords, 0);
  plan.task_count = plan.run_count = plan.tile_count = plan.partials = 0;
  plan.part_ends.clear();
  plan.cut = cut;
  const auto is_run = [&tiles](const BatchSequence& sequence) {
    return tiles.run_rows > 0 && sequence.row_count > 1 && sequence.row_count <= kMostRunRows;
  };
  int partials = 0;
  for (const BatchSequence& sequence : sequences) {
    if (sequence.row_count == 1) {
      AddSplits(sequence, 0, 1, most_partials, plan, partials);
    } else if (tiles.prefill_rows == 0) {
      AddWholeRows(sequence, plan);
    }
  }
  for (const BatchSequence& sequence : sequences) {
    for (int row = 0; is_run(sequence) && row < sequence.row_count; row += tiles.run_rows) {
      AddSplits(sequence, row, std::min(tiles.run_rows, sequence.row_count - row), most_partials,
                plan, partials);
    }
  }
  for (const BatchSequence& sequence : sequences) {
    if (sequence.row_count > 1 && tiles.prefill_rows > 0 && !is_run(sequence)) {
      AddTiles(sequence, tiles.prefill_rows, plan);
    }
  }
  plan.part_ends.push_back({plan.task_count, plan.run_count});
  plan.words[0] = plan.task_count;
  plan.words[1] = plan.tile_count;
  plan.words[2] = plan.run_count;
}

size_t MaxAttentionPlanBytes(int rows, int sequences, int max_tokens) {
  // A tile takes fewer words than the task of a row. Only single rows and those of runs are cut.
  const auto cut_rows = static_cast<size_t>(std::min(rows, sequences * kMostRunRows));
  const size_t tasks =
      static_cast<size_t>(rows) + cut_rows * static_cast<size_t>(AttentionSegments(max_tokens));
  return (kHeaderWords + tasks * kTaskWords) * sizeof(int32_t);
}

}  // namespace baton
