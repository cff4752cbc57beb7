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

// `partials`: those of the last part, so far.
void AddSplits(const BatchSequence& sequence, int most_partials, AttentionPlan& plan,
               int& partials) {
  const int keys = sequence.first_position + 1;
  const int splits = AttentionSegments(keys);
  BATON_CHECK(splits <= most_partials, "memory for the partial results of a sequence");
  if (splits > 1 && splits > most_partials - partials) {
    plan.part_ends.push_back(plan.task_count);
    partials = 0;
  }
  for (int split = 0; split < splits; ++split) {
    Append(DecodeTask{.row = sequence.first_row,
                      .first_key = split * kAttentionSegment,
                      .end_key = std::min((split + 1) * kAttentionSegment, keys),
                      .first_partial = splits == 1 ? -1 : partials},
           plan.words);
  }
  plan.task_count += splits;
  if (splits > 1) partials += splits;
  plan.partials = std::max(plan.partials, partials);
}

void AddWholeRows(const BatchSequence& sequence, AttentionPlan& plan) {
  for (int row = 0; row < sequence.row_count; ++row) {
    Append(DecodeTask{.row = sequence.first_row + row,
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
  const size_t tiles_at = kHeaderWords + static_cast<size_t>(task_count) * kTaskWords;
  const auto* const tasks = reinterpret_cast<const DecodeTask*>(at + kHeaderWords);
  std::vector<AttentionWork> parts;
  int begin = 0;
  for (const int end : part_ends) {
    parts.push_back({.counts = at,
                     .tasks = tasks + begin,
                     .tiles = reinterpret_cast<const PrefillTile*>(at + tiles_at),
                     .max_tasks = end - begin,
                     .max_tiles = begin == 0 ? tile_count : 0,
                     .cut = cut});
    begin = end;
  }
  return parts;
}

void PlanAttention(absl::Span<const BatchSequence> sequences, int tile_rows, AttentionPlan& plan,
                   AttentionCut cut, int most_partials) {
  BATON_CHECK(tile_rows >= 0, "rows of a tile");
  plan.words.assign(kHeaderWords, 0);
  plan.task_count = plan.tile_count = plan.partials = 0;
  plan.part_ends.clear();
  int partials = 0;
  plan.cut = cut;
  for (const BatchSequence& sequence : sequences) {
    if (sequence.row_count == 1) {
      AddSplits(sequence, most_partials, plan, partials);
    } else if (tile_rows == 0) {
      AddWholeRows(sequence, plan);
    }
  }
  for (const BatchSequence& sequence : sequences) {
    if (sequence.row_count > 1 && tile_rows > 0) AddTiles(sequence, tile_rows, plan);
  }
  plan.part_ends.push_back(plan.task_count);
  plan.words[0] = plan.task_count;
  plan.words[1] = plan.tile_count;
}

size_t MaxAttentionPlanBytes(int rows, int sequences, int max_tokens) {
  // A tile takes fewer words than the task of a row.
  const size_t tasks =
      static_cast<size_t>(rows) +
      static_cast<size_t>(sequences) * static_cast<size_t>(AttentionSegments(max_tokens));
  return (kHeaderWords + tasks * kTaskWords) * sizeof(int32_t);
}

}  // namespace baton
