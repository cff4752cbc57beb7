// The work of the attention kernels' thread blocks, decided on the host once per pass.
//
// If a sequence has one row in the pass, the row becomes one task for each kAttentionSegment
// keys, cut at absolute multiples of kAttentionSegment. The last task to end merges their partial
// results in ascending order. If a sequence has a few rows, a run, they are cut alike, several
// rows to a task; if it has more, they become tiles. Both count from the sequence's first row in
// the pass. If there are no tiles, each of these rows becomes one task with all of its keys. The
// tasks and tiles of a sequence do not depend on the other sequences, nor on a layer's window: all
// layers share the plan.
//
// If the memory does not hold the partial results of all rows, the tasks have several parts, which
// are launched one after the other and use the same memory. A row's tasks are of one part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

#include "common/backend/backend.h"
#include "common/backend/cuda/attention/attention.h"
#include "common/backend/cuda/device/attention_segments.h"

namespace baton {

// The plan of one pass, copied to device memory as it is. PlanAttention fills it again for each
// pass and reuses its memory.
struct AttentionPlan {
  // [3] counts and [1] of padding, then tasks [task_count, 5], runs [run_count, 5] and tiles
  // [tile_count, 2].
  std::vector<int32_t> words;
  int task_count = 0;
  int run_count = 0;
  int tile_count = 0;
  int partials = 0;  // partial results of the part with the most, for AttentionPartialBytes
  struct PartEnd {
    int tasks;  // the index behind the part's last task
    int runs;
  };
  std::vector<PartEnd> part_ends;
  AttentionCut cut = AttentionCut::kByRowCount;  // the cut of the work

  size_t bytes() const { return words.size() * sizeof(int32_t); }
  // The work once `words` has been copied to `device`, which is aligned to 16 bytes: one for each
  // part, or one of nothing. The first has the tiles.
  std::vector<AttentionWork> At(const void* device) const;
};

// Plans the attention of a pass of `sequences`. `tiles` comes from TilesFor. The plan has at most
// MaxAttentionPlanBytes. REQUIRES: `most_partials` are enough for a task's rows of the longest
// sequence.
void PlanAttention(absl::Span<const BatchSequence> sequences, const AttentionTiles& tiles,
                   AttentionPlan& plan, AttentionCut cut = AttentionCut::kByRowCount,
                   int most_partials = std::numeric_limits<int>::max());

// The largest plan of any pass of `rows` rows and of `sequences` sequences, each of at most
// `max_tokens` tokens, in bytes.
size_t MaxAttentionPlanBytes(int rows, int sequences, int max_tokens);

}  // namespace baton
