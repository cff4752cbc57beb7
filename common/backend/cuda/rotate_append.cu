#include "common/backend/cuda/device.h"
#include "common/backend/cuda/launch.h"
#include "common/backend/cuda/rotate_append.h"
#include "ptx.h"

namespace baton {

constexpr int kRotateThreads = 128;
constexpr int kRotateVector = 4;  // floats of 16 bytes

struct RotateArguments {
  CudaPass pass;
  Tensor queries;
  Tensor keys;
  Tensor values;
  KvLayerView cache;
};

// Two runs of kCount elements of a head, at `a` and `b`, and the angles that turn them, if any.
// Half of a head's elements are enumerated by `a`: pairs first, then what is not rotated.
template <bool kHalfSplit, int kCount>
struct HeadPart {
  int a;
  int b;
  int pair;  // the first of them
  bool rotated;

  __device__ HeadPart(int index, int head_dim, int rope_dim) {
    const int pairs = rope_dim / 2;
    pair = index * kCount;
    rotated = pair < pairs;
    if (!rotated) {
      a = rope_dim + pair - pairs;
      b = a + (head_dim - rope_dim) / 2;
    } else if (kHalfSplit) {
      a = pair;
      b = pair + pairs;
    } else {
      a = 2 * pair;
      b = 2 * pair + kCount;
    }
  }
};

__device__ inline void RotatePair(float cosine, float sine, float& a, float& b) {
  const float rotated = fmaf(a, cosine, -(b * sine));
  b = fmaf(a, sine, b * cosine);
  a = rotated;
}

// The pairs' first elements are in `a` and their second in `b`, or they follow one another.
template <bool kHalfSplit, int kCount>
__device__ inline void RotatePart(const float* cosines, const float* sines, Floats<kCount>& a,
                                  Floats<kCount>& b) {
  const Floats<kCount> cosine = LoadFloats<kCount>(cosines);
  const Floats<kCount> sine = LoadFloats<kCount>(sines);
  if constexpr (kHalfSplit || kCount == 1) {
    for (int i = 0; i < kCount; ++i) {
      RotatePair(cosine.values[i], sine.values[i], a.values[i], b.values[i]);
    }
  } else {
    constexpr int kHalf = kCount / 2;
    for (int i = 0; i < kHalf; ++i) {
      RotatePair(cosine.values[i], sine.values[i], a.values[2 * i], a.values[2 * i + 1]);
      RotatePair(cosine.values[kHalf + i], sine.values[kHalf + i], b.values[2 * i],
                 b.values[2 * i + 1]);
    }
  }
}

// Block (row, part of its heads); a thread has 2 * kCount elements of one head: of Q, then of K,
// then of V.
template <class Element, bool kHalfSplit, int kCount>
static __global__ void __launch_bounds__(kRotateThreads)
    RotateAndAppendKernel(RotateArguments arguments) {
  WaitForPreviousKernel();
  LetNextKernelStart();
  const CudaPass& pass = arguments.pass;
  const KvLayerView& cache = arguments.cache;
  const int row = static_cast<int>(blockIdx.x);
  const int head_dim = cache.head_dim;
  const int parts = head_dim / (2 * kCount);
  const int item = static_cast<int>(blockIdx.y * kRotateThreads + threadIdx.x);
  const int query_heads = arguments.queries.columns / head_dim;
  const int head = item / parts;
  if (head >= query_heads + 2 * cache.kv_heads) return;
  const HeadPart<kHalfSplit, kCount> part(item % parts, head_dim, pass.rope_dim);
  const bool query = head < query_heads;
  const bool value = head >= query_heads + cache.kv_heads;
  if (query && !part.rotated) return;

  const int kv_head = head - query_heads - (value ? cache.kv_heads : 0);
  const Tensor& tensor = query ? arguments.queries : value ? arguments.values : arguments.keys;
  float* const at = tensor.Row(row) + (query ? head : kv_head) * head_dim;
  Floats<kCount> a = LoadFloats<kCount>(at + part.a);
  Floats<kCount> b = LoadFloats<kCount>(at + part.b);
  if (part.rotated && !value) {
    const size_t angles = static_cast<size_t>(row) * static_cast<size_t>(pass.rope_dim / 2) +
                          static_cast<size_t>(part.pair);
    RotatePart<kHalfSplit, kCount>(pass.rope_cos + angles, pass.rope_sin + angles, a, b);
    StoreFloats(at + part.a, a);
    StoreFloats(at + part.b, b);
  }
  if (query) return;
  const int position = pass.positions[row];
  if (position < 0) return;
  const size_t table =
      static_cast<size_t>(pass.sequence_of_row[row]) * static_cast<size_t>(pass.table_stride);
  const int32_t block = pass.block_tables[table + static_cast<size_t>(position / cache.block_size)];
  const int token = position % cache.block_size;
  Element* const stored = reinterpret_cast<Element*>(value ? cache.ValueRow(block, token)
                                                           : cache.KeyRow(block, token)) +
                          kv_head * head_dim;
  StoreFloats(stored + part.a, a);
  StoreFloats(stored + part.b, b);
}

template <class Element, bool kHalfSplit>
static void RotateAndAppendBy(const RotateArguments& arguments, cudaStream_t stream) {
  const KvLayerView& cache = arguments.cache;
  // Whole vectors of pairs, and of what is not rotated; all rows, in the cache too, begin at 16
  // bytes then.
  const bool vectors =
      arguments.pass.rope_dim % (2 * kRotateVector) == 0 &&
      cache.head_dim % (2 * kRotateVector) == 0 && cache.block_bytes % 16 == 0 &&
      cache.keys_offset % 16 == 0 && cache.values_offset % 16 == 0 &&
      MultiplesOf16({arguments.queries.data, arguments.keys.data, arguments.values.data,
                     cache.blocks, arguments.pass.rope_cos, arguments.pass.rope_sin});
  const int count = vectors ? kRotateVector : 1;
  const int items = (arguments.queries.columns + 2 * cache.kv_heads * cache.head_dim) / (2 * count);
  Launch(vectors ? RotateAndAppendKernel<Element, kHalfSplit, kRotateVector>
                 : RotateAndAppendKernel<Element, kHalfSplit, 1>,
         {.grid = {static_cast<unsigned>(arguments.queries.rows), BlocksFor(items, kRotateThreads)},
          .block = kRotateThreads,
          .stream = stream,
          .may_start_early = true},
         arguments);
}

void LaunchRotateAndAppend(const CudaPass& pass, Tensor queries, Tensor keys, Tensor values,
                           const KvLayerView& cache, cudaStream_t stream) {
  if (queries.rows == 0) return;
  const RotateArguments arguments{pass, queries, keys, values, cache};
  WithElement(cache.dtype, [&](auto element) {
    using Element = decltype(element);
    if (pass.rope_half_split) {
      RotateAndAppendBy<Element, true>(arguments, stream);
    } else {
      RotateAndAppendBy<Element, false>(arguments, stream);
    }
  });
}

}  // namespace baton
