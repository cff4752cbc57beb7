// Which blocks of the attention kernels work at what, decided on the host once per pass.
//
// The only row of a sequence becomes a task for each kAttentionSplit keys, cut at absolute
// multiples of it; their partial results are merged in ascending order by the last to end. More
// rows become tiles, counted from the sequence's first row of the pass, or where there are no tiles
// one task each, with all of its keys. A sequence's part of the plan does not depend on the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/backend/backend.h"
#include "common/backend/cuda/attention.h"

namespace baton {

// Copied to device memory as it is. Filled again for each pass, its memory is reused.
struct AttentionPlan {
  // counts [2] and two of padding, tasks [task_count, 4], tiles [tile_count, 2]
  std::vector<int32_t> words;
  int task_count = 0;
  int tile_count = 0;
  int partials = 0;                              // for AttentionPartialBytes
  AttentionCut cut = AttentionCut::kByRowCount;  // of the work

  size_t bytes() const { return words.size() * sizeof(int32_t); }
  // The work once `words` has been copied to `device`, which is aligned to 16 bytes.
  AttentionWork At(const void* device) const;
};

// `tile_rows` as PrefillTileRows gives it. At most MaxAttentionPlanBytes.
void PlanAttention(absl::Span<const PassSequence> sequences, int tile_rows, AttentionPlan& plan,
                   AttentionCut cut = AttentionCut::kByRowCount);

// For any pass of so many rows and sequences of at most `max_tokens` tokens each.
size_t MaxAttentionPlanBytes(int rows, int sequences, int max_tokens);

}  // namespace baton
