#include "common/backend/cuda/attention/append_attention.h"
#include "common/backend/cuda/attention/attention_launch.h"
#include "common/backend/cuda/attention/decode_task.h"
#include "common/backend/cuda/attention/rotate_head.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

// Elements that a lane rotates: neighbouring lanes load whole sectors of 32 bytes.
constexpr int kRotatedRange = 4;

// Elements [first, first + 4) of a head, rotated by the angles of row `row`. REQUIRES: `first` is a
// multiple of 4, and rope.dim one of 8.
static __device__ inline Floats<4> RotatedQuad(const CudaRope& rope, int row, const float* head,
                                               int first) {
  Floats<4> x = LoadFloats<4>(head + first);
  if (first >= rope.dim) return x;
  const int pairs = rope.dim / 2;
  const size_t angles = static_cast<size_t>(row) * static_cast<size_t>(pairs);
  if (!rope.half_split) {
    const Floats<2> cosine = LoadFloats<2>(rope.cosines + angles + first / 2);
    const Floats<2> sine = LoadFloats<2>(rope.sines + angles + first / 2);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      RotatePair(cosine.values[i], sine.values[i], x.values[2 * i], x.values[2 * i + 1]);
    }
    return x;
  }
  const bool second = first >= pairs;
  const int pair = second ? first - pairs : first;
  const Floats<4> other = LoadFloats<4>(head + (second ? pair : first + pairs));
  const Floats<4> cosine = LoadFloats<4>(rope.cosines + angles + pair);
  const Floats<4> sine = LoadFloats<4>(rope.sines + angles + pair);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float a = second ? other.values[i] : x.values[i];
    float b = second ? x.values[i] : other.values[i];
    RotatePair(cosine.values[i], sine.values[i], a, b);
    x.values[i] = second ? b : a;
  }
  return x;
}

// StoreQueries of attention_pages.h for the row of the task, whose queries it rotates.
template <class Element, int kHeadDim, QueryLayout kLayout>
static __device__ void StoreRotatedQueries(const AttentionArgs& args, const CudaRope& rope, int row,
                                           int kv_head, uint8_t* to) {
  constexpr int kQuads = kHeadDim / kRotatedRange;
  const float* const scales = args.pass.query_scales;
  for (int i = static_cast<int>(threadIdx.x); i < kKvPageTokens * kQuads; i += kAttentionThreads) {
    const int head = i / kQuads;
    const int quad = i % kQuads;
    Floats<4> x = {};
    if (head < args.group) {
      const float* const query = args.queries.Row(row) + (kv_head * args.group + head) * kHeadDim;
      x = RotatedQuad(rope, row, query, quad * kRotatedRange);
      if (scales != nullptr) {
        for (float& element : x.values) element *= scales[row];
      }
      for (float& element : x.values) element *= args.scale;
    }
    StoreQueryQuad<Element, kLayout>(to + head * PageShape<kHeadDim>::kRowBytes, quad, x);
  }
}

// What a head of the task's own row is in the cache: its elements, and its scale if they are codes.
template <class Stored, int kHeadDim>
struct KeptHead {
  static constexpr int kElementBytes = CopiedPage<Stored, kHeadDim>::kElementBytes;
  static constexpr int kScaleBytes = CopiedPage<Stored, kHeadDim>::kScaleBytes;
  // The next head begins at a multiple of 16 bytes.
  static constexpr int kBytes = kElementBytes + (kScaleBytes + 15) / 16 * 16;

  uint8_t* at;
  __device__ float* Scale() const { return reinterpret_cast<float*>(at + kElementBytes); }
};

// A head's elements: of each lane every 32nd four, from the lane-th on.
template <int kHeadDim>
using LaneQuads = Floats<kRotatedRange>[(kHeadDim + 32 * kRotatedRange - 1) / (32 * kRotatedRange)];

// Calls visit(index in LaneQuads, first element) for the lane's quads.
template <int kHeadDim, class Visit>
static __device__ inline void ForEachQuadOfLane(const Visit& visit) {
#pragma unroll
  for (int i = 0; i * 32 * kRotatedRange < kHeadDim; ++i) {
    const int first = (i * 32 + static_cast<int>(threadIdx.x) % 32) * kRotatedRange;
    if (first < kHeadDim) visit(i, first);
  }
}

// Stores a head in the cache, its elements at `cached` and, if they are codes, their scale at
// `scale`; and the same in `kept`. A warp calls it.
template <class Stored, int kHeadDim>
static __device__ void StoreHead(const LaneQuads<kHeadDim>& x, uint8_t* cached, uint8_t* scale,
                                 const KeptHead<Stored, kHeadDim>& kept) {
  const auto store = [&](int first, auto packed) {
    const size_t offset = static_cast<size_t>(first) * sizeof(Stored);
    __stwb(reinterpret_cast<decltype(packed)*>(cached + offset), packed);
    *reinterpret_cast<decltype(packed)*>(kept.at + offset) = packed;
  };
  if constexpr (kIsFloat<Stored>) {
    ForEachQuadOfLane<kHeadDim>([&](int i, int first) { store(first, PackQuad<Stored>(x[i])); });
  } else {
    int32_t most = 0;
    ForEachQuadOfLane<kHeadDim>([&](int i, int) {
      for (const float element : x[i].values) most = max(most, MagnitudeBits(element));
    });
    const float its_scale = KvScale<Stored>(WarpMax(most));
    const float divisor = KvDivisor(its_scale);
    ForEachQuadOfLane<kHeadDim>(
        [&](int i, int first) { store(first, CodesOf<Stored>(x[i], divisor)); });
    if (threadIdx.x % 32 == 0) {
      __stwb(reinterpret_cast<float*>(scale), its_scale);
      // tests/planted_bugs: kernel_new_row_without_its_scale
      *kept.Scale() = its_scale;
    }
  }
}

// Stores the key and the value of the task's last position in the cache and at `kept` [K, V]. One
// warp calls it.
template <class Stored, int kHeadDim>
static __device__ void AppendRow(const AttentionArgs& args, const NewRows& rows,
                                 const TaskPages& pages, uint8_t* kept) {
  using Kept = KeptHead<Stored, kHeadDim>;
  const int32_t block = __shfl_sync(kAllLanes, pages.block, pages.count - 1);
  const int row = pages.task.row;
  const KvLayerView cache = WithConstants<Stored, kHeadDim>(args.cache);
  const int token = (pages.task.end_key - 1) % cache.block_size;
  const int head_at = pages.kv_head * kHeadDim;
  const size_t bytes_at = static_cast<size_t>(pages.kv_head) * Kept::kElementBytes;
  const size_t scale_at = static_cast<size_t>(pages.kv_head) * Kept::kScaleBytes;
  LaneQuads<kHeadDim> key;
  LaneQuads<kHeadDim> value;
  ForEachQuadOfLane<kHeadDim>([&](int i, int first) {
    key[i] = RotatedQuad(rows.rope, row, rows.keys.Row(row) + head_at, first);
    value[i] = LoadFloats<kRotatedRange>(rows.values.Row(row) + head_at + first);
  });
  StoreHead<Stored, kHeadDim>(key, cache.KeyRow(block, token) + bytes_at,
                              cache.KeyScales(block, token) + scale_at, Kept{kept});
  StoreHead<Stored, kHeadDim>(value, cache.ValueRow(block, token) + bytes_at,
                              cache.ValueScales(block, token) + scale_at,
                              Kept{kept + Kept::kBytes});
}

// Puts what AppendRow kept into the copy of the page, which has zeros there. `token` is its index
// in the page. The warp of AppendRow calls it, behind a barrier.
template <class Stored, int kHeadDim>
static __device__ void PutRow(uint8_t* kept, int token, uint8_t* page) {
  using Copied = CopiedPage<Stored, kHeadDim>;
  using Kept = KeptHead<Stored, kHeadDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const Kept head = {kept + side * Kept::kBytes};
    uint8_t* const to = page + side * Copied::kBytes;
    if (lane < Copied::kChunks) {
      constexpr bool kCodes = kHasCodeTile<Stored, kHeadDim>;
      *reinterpret_cast<uint4*>(Copied::template ChunkAt<kCodes>(to, token, lane)) =
          *reinterpret_cast<const uint4*>(head.at + lane * 16);
    }
    if constexpr (!kIsFloat<Stored>) {
      if (lane == 0) {
        reinterpret_cast<float*>(to + Copied::kScalesAt)[token] = *head.Scale();
      }
    }
  }
  __syncwarp();
}

// The shared memory of DecodeShape, then the [K, V] that AppendRow keeps.
template <class Stored, int kHeadDim>
constexpr int kAppendSharedBytes =
    DecodeShape<Stored, kHeadDim>::kSharedBytes + 2 * KeptHead<Stored, kHeadDim>::kBytes;

// The plan and the tables were copied to the device, and so were behind the kernels that wrote the
// earlier keys: all these are read before the wait for the previous kernel.
template <class Stored, int kHeadDim>
static __global__ void __launch_bounds__(kAttentionThreads, DecodeShape<Stored, kHeadDim>::kBlocks)
    AppendAttentionKernel(const __grid_constant__ AttentionArgs args,
                          const __grid_constant__ NewRows rows) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  using Shape = DecodeShape<Stored, kHeadDim>;
  LetNextKernelStart();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  uint8_t* const end_shared = shared_memory + PageShape<kHeadDim>::kBytes;
  uint8_t* const warps = shared_memory + Shape::kWarpsAt;
  uint8_t* const own = warps + warp * Shape::kWarpBytes;
  uint8_t* const kept = shared_memory + Shape::kSharedBytes;
  const int item = static_cast<int>(blockIdx.x) / args.cache.kv_heads;
  const int kv_head = static_cast<int>(blockIdx.x) % args.cache.kv_heads;
  DecodeTask task = {};
  if (item < args.work.counts[0]) task = TaskAt(args, item);
  if (task.first_key >= task.end_key) return WaitForPreviousKernel();
  TaskPages pages = FindPages(args, task, kv_head);
  // The page that the row's own key belongs to; -1: another block has it.
  const bool has_new_key = task.end_key == args.pass.positions[task.row] + 1;
  const int new_page = has_new_key ? pages.count - 1 : -1;
  if (has_new_key) --pages.end_copied;
  CopyFirstPage<Stored, kHeadDim>(args, pages, own);

  WaitForPreviousKernel();
  if (has_new_key && new_page % kAttentionWarps == warp) {
    AppendRow<Stored, kHeadDim>(args, rows, pages, kept);
  }
  StoreRotatedQueries<MatrixElement<Stored>, kHeadDim, Shape::kQueryLayout>(
      args, rows.rope, task.row, kv_head, shared_memory);
  __syncthreads();
  TaskState<kHeadDim> state;
  ClearState(state);
  AttendPages<Stored, kHeadDim>(
      args, pages, shared_memory, own,
      [&](int page, uint8_t* buffer) {
        if (page != new_page) return;
        PutRow<Stored, kHeadDim>(kept, (task.end_key - 1) % kKvPageTokens, buffer);
      },
      state);
  __syncwarp();
  StoreState<Stored>(state, args.group, reinterpret_cast<float*>(own));
  EndTask(args, {task, kv_head * args.group, args.group}, reinterpret_cast<const float*>(warps),
          Shape::kWarpBytes / sizeof(float), end_shared);
}

// Calls visit(Stored{}, std::integral_constant<int, head_dim>{}) if there is a kernel for such a
// cache.
template <class Visit>
static void WithAppendShape(const KvLayerView& cache, const Visit& visit) {
  WithPageShape(cache, [&](auto stored, auto head_dim) {
    if constexpr (!kIsKvInt4<decltype(stored)>) visit(stored, head_dim);
  });
}

bool AppendAttentionTakes(const NewRows& rows, const AttentionWork& work, const KvLayerView& cache,
                          int multiprocessors) {
  bool fits = false;
  WithAppendShape(cache, [&](auto stored, auto head_dim) {
    fits = kAppendSharedBytes<decltype(stored), decltype(head_dim)::value> <= MostSharedBytes();
  });
  const int group = rows.queries.columns / (cache.head_dim * cache.kv_heads);
  if (!fits || group > kMaxTaskHeads) return false;
  if (work.cut != AttentionCut::kByRowCount || work.max_tiles > 0) return false;
  // About as many blocks as are on the device at a time.
  constexpr int kBlocks = 3;
  if (work.max_tasks > kBlocks * multiprocessors / cache.kv_heads) return false;
  return rows.rope.dim % (2 * kRotatedRange) == 0 && cache.block_bytes % 16 == 0 &&
         cache.keys_offset % 16 == 0 && cache.values_offset % 16 == 0 &&
         MultiplesOf16({rows.queries.data, rows.keys.data, rows.values.data, cache.blocks,
                        rows.rope.cosines, rows.rope.sines});
}

void LaunchAppendAndAttend(const CudaPass& pass, const AttentionWork& work,
                           const AttentionRule& rule, const NewRows& rows, const KvLayerView& cache,
                           Tensor out, const CudaAttentionScratch& scratch, cudaStream_t stream) {
  if (work.max_tasks == 0) return;
  const AttentionArgs args = AttentionArgsFor(pass, work, rule, rows.queries, cache, out, scratch);
  WithAppendShape(cache, [&](auto stored, auto head_dim) {
    using Stored = decltype(stored);
    constexpr int kHeadDim = decltype(head_dim)::value;
    Launch(AppendAttentionKernel<Stored, kHeadDim>,
           {.grid = static_cast<unsigned>(work.max_tasks * cache.kv_heads),
            .block = kAttentionThreads,
            .shared_bytes = kAppendSharedBytes<Stored, kHeadDim>,
            .stream = stream,
            .may_start_early = true},
           args, rows);
  });
}

}  // namespace baton
