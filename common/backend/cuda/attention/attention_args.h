// The arguments of every attention kernel, which keys a row sees, and where a kernel finds keys and
// values.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

#include "common/backend/cuda/attention/attention.h"
#include "common/base/float_types.h"

namespace baton {

struct AttentionArgs {
  CudaPass pass;
  AttentionWork work;
  Tensor queries;  // [rows, heads * head_dim]
  KvLayerView cache;
  Tensor out;  // [rows, heads * head_dim]
  CudaAttentionScratch scratch;
  int heads;
  int group;           // query heads that share a KV head
  float scale;         // factor of query . key, times log2(e): scores are exponents of 2
  int window;          // keys that a query sees, its own included; kNoWindow: all up to its own
  const float* sinks;  // [heads], not times log2(e); or null
};

inline constexpr int kNoWindow = INT_MAX;

// The first key that a query at `position` sees.
__device__ inline int FirstKey(const AttentionArgs& args, int position) {
  const int first = position + 1 - args.window;
  return first > 0 ? first : 0;
}

// Whether a query sees a key that is `distance` before it.
__device__ inline bool Sees(int distance, int window) {
  // A later key, with its negative distance, becomes larger than any window.
  return static_cast<uint32_t>(distance) < static_cast<uint32_t>(window);
}

// The task `item`, cut to the keys that its row sees. It has none of them where its first key is not
// before its end.
__device__ inline DecodeTask TaskAt(const AttentionArgs& args, int item) {
  DecodeTask task = args.work.tasks[item];
  if (args.window != kNoWindow) {
    const int first_seen = FirstKey(args, args.pass.positions[task.row]);
    if (first_seen > task.first_key) task.first_key = first_seen;
  }
  return task;
}

// The segments of which rows of a sequence see a key: each has a task if there are several.
struct RowSegments {
  int first;
  int count;
};
// `first` and `last` are the positions of the first and the last row.
__device__ inline RowSegments SegmentsSeen(const AttentionArgs& args, int first, int last) {
  const int segment = FirstKey(args, first) / kAttentionSegment;
  return {segment, last / kAttentionSegment + 1 - segment};
}
__device__ inline RowSegments SegmentsOf(const AttentionArgs& args, int row) {
  const int position = args.pass.positions[row];
  return SegmentsSeen(args, position, position);
}
__device__ inline RowSegments SegmentsOf(const AttentionArgs& args, const DecodeTask& task) {
  const int32_t* const positions = args.pass.positions + task.row;
  return SegmentsSeen(args, positions[0], positions[task.row_count - 1]);
}

inline constexpr int kAttentionWarps = 4;
inline constexpr int kAttentionThreads = kAttentionWarps * 32;

// The block table of the sequence that owns row `row` of the pass.
__device__ inline const int32_t* BlockTable(const CudaPass& pass, int row) {
  // Unsigned: extending a sign takes registers that some kernels do not have.
  return pass.block_tables + static_cast<uint32_t>(pass.table_of_row[row]);
}

// Keys or values of one KV head, from some token of a KV block on. The [head_dim] elements of the
// next token lie row_bytes further. For codes, `scales` points to the token's scale or scales, and
// the next token's lie scale_bytes further.
struct HeadRows {
  const uint8_t* rows;
  const uint8_t* scales;
  size_t row_bytes;
  size_t scale_bytes;

  __device__ HeadRows Values(const KvLayerView& cache) const {
    const size_t step = cache.values_offset - cache.keys_offset;
    return {rows + step, scales + step, row_bytes, scale_bytes};
  }
  __device__ const uint8_t* Row(int token) const {
    return rows + static_cast<size_t>(token) * row_bytes;
  }
  // The scale of a group of an int4 cache.
  __device__ float GroupScale(int token, int group) const {
    return F16ToF32(reinterpret_cast<const uint16_t*>(scales + static_cast<size_t>(token) *
                                                                   scale_bytes)[group]);
  }
  __device__ float Scale(int token) const {
    return *reinterpret_cast<const float*>(scales + static_cast<size_t>(token) * scale_bytes);
  }
};

// The keys of KV head `kv_head` from token `token_in_block` of block `block` on.
__device__ inline HeadRows KeysAt(const KvLayerView& cache, int32_t block, int token_in_block,
                                  int kv_head) {
  const KvPartShape part = cache.part();
  const auto head = static_cast<size_t>(kv_head);
  return {cache.KeyRow(block, token_in_block) + head * part.head_bytes(),
          cache.KeyScales(block, token_in_block) + head * part.head_scale_bytes(), part.row_bytes(),
          part.scale_bytes()};
}

}  // namespace baton
