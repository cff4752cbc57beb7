// The rotation of a head of Q or K, and its place in the cache, for the kernels that append to it.
#pragma once

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/operands.h"
#include "common/backend/tensor.h"

namespace baton {

inline constexpr int kRotateVector = 4;  // floats in 16 bytes

// The arguments of LaunchRotateAndAppend.
struct RotateArguments {
  CudaPass pass;
  CudaRope rope;
  Tensor queries;
  Tensor keys;
  Tensor values;
  KvLayerView cache;
};

// The number of heads of a row: those of Q, then of K, then of V.
__host__ __device__ inline int RotatedHeads(const RotateArguments& arguments) {
  return arguments.queries.columns / arguments.cache.head_dim + 2 * arguments.cache.kv_heads;
}

// Whether the rotated pairs and the other elements divide into whole vectors. All rows, those in
// the cache too, then begin at multiples of 16 bytes.
inline bool RotatesVectors(const RotateArguments& arguments) {
  const KvLayerView& cache = arguments.cache;
  return arguments.rope.dim % (2 * kRotateVector) == 0 &&
         cache.head_dim % (2 * kRotateVector) == 0 && cache.block_bytes % 16 == 0 &&
         cache.keys_offset % 16 == 0 && cache.values_offset % 16 == 0 &&
         MultiplesOf16({arguments.queries.data, arguments.keys.data, arguments.values.data,
                        cache.blocks, arguments.rope.cosines, arguments.rope.sines});
}

// The tensor and head that one of the RotatedHeads is.
struct HeadOwner {
  Tensor tensor;
  int head;  // index of the head in the tensor
  bool query;
  bool value;

  // REQUIRES: index < RotatedHeads(arguments).
  __device__ HeadOwner(const RotateArguments& arguments, int index) {
    const int kv_heads = arguments.cache.kv_heads;
    const int query_heads = arguments.queries.columns / arguments.cache.head_dim;
    query = index < query_heads;
    value = index >= query_heads + kv_heads;
    head = query ? index : index - query_heads - (value ? kv_heads : 0);
    tensor = query ? arguments.queries : value ? arguments.values : arguments.keys;
  }
};

// The place of the row's token in the cache.
struct CachePlace {
  int32_t block = 0;
  int token = -1;  // index of the token in the block; negative if the row is padding

  __device__ CachePlace(const CudaPass& pass, int row, const KvLayerView& cache) {
    const int position = pass.positions[row];
    if (position < 0) return;
    block = (pass.block_tables + pass.table_of_row[row])[cache.TableIndex(position)];
    token = position % cache.block_size;
  }
};

// Two ranges of kCount elements of a head, at `a` and `b`, which are rotated together if at all.
// `index` counts the ranges at `a`, which are one half of the head: pairs first, then the elements
// that are not rotated.
template <bool kHalfSplit, int kCount>
struct HeadPart {
  int a;
  int b;
  int pair;  // the first of the pairs
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

// Rotates kCount pairs, the first of them `pair`. With kHalfSplit the pairs' first elements are in
// `a` and their second ones in `b`; otherwise the two elements of a pair follow one another.
template <bool kHalfSplit, int kCount>
__device__ inline void RotatePart(const CudaRope& rope, int row, int pair, Floats<kCount>& a,
                                  Floats<kCount>& b) {
  const size_t angles =
      static_cast<size_t>(row) * static_cast<size_t>(rope.dim / 2) + static_cast<size_t>(pair);
  const Floats<kCount> cosine = LoadFloats<kCount>(rope.cosines + angles);
  const Floats<kCount> sine = LoadFloats<kCount>(rope.sines + angles);
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

// Rotates a part of Q or K, then scales one of Q. Returns whether it may be another than before.
template <bool kHalfSplit, int kCount>
__device__ inline bool ChangePart(const RotateArguments& arguments, const HeadOwner& owner, int row,
                                  const HeadPart<kHalfSplit, kCount>& part, Floats<kCount>& a,
                                  Floats<kCount>& b) {
  const bool rotated = part.rotated && !owner.value;
  if (rotated) RotatePart<kHalfSplit, kCount>(arguments.rope, row, part.pair, a, b);
  const float* const scales = arguments.pass.query_scales;
  if (!owner.query || scales == nullptr) return rotated;
  const float scale = scales[row];
  for (float& x : a.values) x *= scale;
  for (float& x : b.values) x *= scale;
  return true;
}

// The codes of some elements of a head whose scale's divisor is `divisor`, packed.
template <class Code, int kCount>
__device__ inline typename OneAccess<kCount>::Type CodesOf(const Floats<kCount>& x, float divisor) {
  Code codes[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) codes[i] = KvCode<Code>(x.values[i], divisor);
  typename OneAccess<kCount>::Type packed;
  memcpy(&packed, codes, sizeof(packed));
  return packed;
}

}  // namespace baton
