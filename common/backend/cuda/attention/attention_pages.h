// Pages of keys and values in shared memory, and their products on the tensor cores.
//
// An M tile is 16 rows of queries. The lanes of a warp divide the accumulator of an mma as follows:
//   rows of each M tile: lane / 4, and lane / 4 + 8
//   columns of every 8:  2 * (lane % 4), and the next one
// Whole warps call everything here.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/backend/cuda/attention/attention_args.h"
#include "common/backend/cuda/device/device.h"
#include "ptx.h"

namespace baton {

// A row of `kHeadDim` 16-bit elements in shared memory. Its bytes are an odd multiple of 16, so
// that the same 16 bytes of eight consecutive rows lie in different banks.
template <int kHeadDim>
struct PageShape {
  static constexpr int kChunks = kHeadDim / 8;  // chunks of 16 bytes in a row
  // tests/planted_bugs: kernel_page_rows_in_the_same_banks
  static constexpr int kRowBytes = (kChunks | 1) * 16;
  static constexpr int kBytes = kKvPageTokens * kRowBytes;
};

// The element that the tensor cores multiply for a cache of elements `Stored`. Codes are exact in
// __half; their products with the scale are rounded to __half.
template <class Stored>
using MatrixElement = std::conditional_t<kIsFloat<Stored>, Stored, __half>;

// Whether the tensor cores take a cache of elements `Stored`. The scales of an int4 head are copied
// at once: 4, 8 or 16 bytes.
template <class Stored, int kHeadDim>
inline constexpr bool kHasPages =
    kIsKvInt4<Stored> ? kHeadDim % 64 == 0 : !std::is_same_v<Stored, float>;

// The view with what the type arguments say as constants: the compiler then knows the sizes.
template <class Stored, int kHeadDim>
__device__ KvLayerView WithConstants(KvLayerView cache) {
  cache.head_dim = kHeadDim;
  cache.dtype = std::is_same_v<Stored, __half>          ? KvType::kF16
                : std::is_same_v<Stored, __nv_bfloat16> ? KvType::kBf16
                : std::is_same_v<Stored, KvInt8>        ? KvType::kInt8
                : std::is_same_v<Stored, KvFp8>         ? KvType::kFp8
                                                        : KvType::kInt4;
  return cache;
}

// Calls visit(Stored{}, std::integral_constant<int, head_dim>{}) where the tensor cores take such a
// cache.
template <class Visit>
void WithPageShape(const KvLayerView& cache, const Visit& visit) {
  const auto with_head_dim = [&](auto head_dim) {
    constexpr int kHeadDim = decltype(head_dim)::value;
    WithElement(cache.dtype, [&](auto stored) {
      if constexpr (kHasPages<decltype(stored), kHeadDim>) visit(stored, head_dim);
    });
  };
  switch (cache.head_dim) {
    case 64:
      return with_head_dim(std::integral_constant<int, 64>{});
    case 80:
      return with_head_dim(std::integral_constant<int, 80>{});
    case 96:
      return with_head_dim(std::integral_constant<int, 96>{});
    case 128:
      return with_head_dim(std::integral_constant<int, 128>{});
    case 256:
      return with_head_dim(std::integral_constant<int, 256>{});
    default:
      return;
  }
}

// Two elements packed into a register, `low` in its lower half.
template <class Element>
__device__ uint32_t PackPair(float low, float high);
template <>
__device__ inline uint32_t PackPair<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}
template <>
__device__ inline uint32_t PackPair<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}

// d += a b: one mma of an M tile `a` [16, 16] and an operand [16, 8] whose halves are b0 and b1.
template <class Element>
__device__ void Multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
__device__ inline void Multiply<__half>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                        uint32_t b1) {
  MultiplyF16(d, a, {b0, b1});
}
template <>
__device__ inline void Multiply<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
  MultiplyBf16(d, a, {b0, b1});
}

// Four elements, rounded and packed into 8 bytes.
template <class Element>
__device__ inline uint2 PackQuad(const Floats<4>& x) {
  return {PackPair<Element>(x.values[0], x.values[1]), PackPair<Element>(x.values[2], x.values[3])};
}

// The query of head kv_head * group + i % group in row first_row + i / group of the pass.
__device__ inline const float* QueryAt(const AttentionArgs& args, int first_row, int kv_head,
                                       int i) {
  return args.queries.Row(first_row + i / args.group) +
         (kv_head * args.group + i % args.group) * args.cache.head_dim;
}

// The order of a query's columns: as they come, or for a CodeTile.
enum class QueryLayout { kPlain, kForCodes };

// Stores columns 4 * quad to 4 * quad + 3 of a query's row at `row`.
template <class Element, QueryLayout kLayout>
__device__ inline void StoreQueryQuad(uint8_t* row, int quad, const Floats<4>& x) {
  if constexpr (kLayout == QueryLayout::kPlain) {
    *reinterpret_cast<uint2*>(row + quad * 8) = PackQuad<Element>(x);
  } else {
    // Lane t of four has quads 4t to 4t + 3 of 16 in the key's fragments of the four steps.
    uint8_t* const at = row + (quad / 16 * 4 + quad % 4) * 32 + quad % 16 / 4 * 4;
    const uint2 packed = PackQuad<Element>(x);
    *reinterpret_cast<uint32_t*>(at) = packed.x;
    *reinterpret_cast<uint32_t*>(at + 16) = packed.y;
  }
}

// Stores rows [0, row_count * group) of queries (QueryAt), scaled and rounded. The other rows, up to
// kRows, become zero. `to` [kRows, kRowBytes]. All kThreads threads of the block call it.
template <class Element, int kHeadDim, int kRows, QueryLayout kLayout = QueryLayout::kPlain,
          int kThreads = kAttentionThreads>
__device__ void StoreQueries(const AttentionArgs& args, PrefillTile tile, int kv_head,
                             uint8_t* to) {
  constexpr int kQuads = kHeadDim / 4;  // four elements each, of a row of queries
  constexpr int kAll = kRows * kQuads;
  // A thread's loads that are under way together: the block can do nothing else before they end.
  constexpr int kMost = (kAll + kThreads - 1) / kThreads;
  constexpr int kTogether = kMost < 8 ? kMost : 8;
  const int used = tile.row_count * args.group;
  for (int first = static_cast<int>(threadIdx.x); first < kAll; first += kTogether * kThreads) {
    Floats<4> x[kTogether] = {};
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int row = (first + k * kThreads) / kQuads;
      const int quad = (first + k * kThreads) % kQuads;
      if (row >= used) continue;
      x[k] = LoadFloats<4>(QueryAt(args, tile.first_row, kv_head, row) + quad * 4);
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int row = (first + k * kThreads) / kQuads;
      const int quad = (first + k * kThreads) % kQuads;
      if (row >= kRows) continue;
      for (float& element : x[k].values) element *= args.scale;
      StoreQueryQuad<Element, kLayout>(to + row * PageShape<kHeadDim>::kRowBytes, quad, x[k]);
    }
  }
}

// scores[t][p] += M tile t of `queries` [kTiles * 16, kHeadDim] times the transpose of page p of
// `keys` [kPages * 16, kHeadDim], for the first `pages` pages. The index [2] is a half of a page's
// keys.
template <class Element, int kHeadDim, int kTiles, int kPages>
__device__ void MultiplyKeys(const uint8_t* queries, const uint8_t* keys, int pages,
                             float (&scores)[kTiles][kPages][2][4]) {
  using Shape = PageShape<kHeadDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Each lane names one row of one of four 8x8 matrices. Queries: rows 0-7, rows 8-15, then both
  // with the next 8 columns. Keys: keys 0-7, keys 0-7 with the next 8 columns, then keys 8-15 in
  // both ways.
  const uint8_t* const query = queries + lane % 16 * Shape::kRowBytes + lane / 16 * 16;
  const uint8_t* const key =
      keys + (lane / 16 * 8 + lane % 8) * Shape::kRowBytes + lane / 8 % 2 * 16;
#pragma unroll
  for (int d = 0; d < kHeadDim / 16; ++d) {
    uint32_t a[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) LoadMatrices(a[t], query + t * Shape::kBytes + d * 32);
#pragma unroll
    for (int p = 0; p < kPages; ++p) {
      if (p >= pages) continue;
      uint32_t b[4];
      LoadMatrices(b, key + p * Shape::kBytes + d * 32);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        Multiply<Element>(scores[t][p][0], a[t], b[0], b[1]);
        Multiply<Element>(scores[t][p][1], a[t], b[2], b[3]);
      }
    }
  }
}

// Rounds the weights of an M tile and a page, laid out as accumulators, to an operand of an mma.
template <class Element>
__device__ void RoundWeights(const float (&weights)[2][4], uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float(&half)[4] = weights[i / 2];
    a[i] = PackPair<Element>(half[i % 2 * 2], half[i % 2 * 2 + 1]);
  }
}

// The row that a lane names, in one of four 8x8 matrices of values, which are loaded transposed:
// keys 0-7, keys 8-15, then both with the next 8 columns.
template <int kHeadDim>
__device__ const uint8_t* ValueRows(const uint8_t* values, int lane) {
  return values + lane % 16 * PageShape<kHeadDim>::kRowBytes + lane / 16 * 16;
}

// Columns [16 * d, 16 * d + 16) of the sums of all M tiles += weights `a` times values `b`.
template <class Element, int kTiles, int kColumns>
__device__ void MultiplyBoth(const uint32_t (&a)[kTiles][4], const uint32_t (&b)[4],
                             float (&sums)[kTiles][kColumns][4], int d) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    Multiply<Element>(sums[t][d * 2], a[t], b[0], b[1]);
    Multiply<Element>(sums[t][d * 2 + 1], a[t], b[2], b[3]);
  }
}

// sums[t] += the weights of M tile t (`scores`, rounded) times the first `pages` pages of `values`
// [kPages * 16, kHeadDim], or times 8 * kFragments columns of them.
template <class Element, int kHeadDim, int kTiles, int kPages, int kFragments>
__device__ void MultiplyValues(const float (&scores)[kTiles][kPages][2][4], const uint8_t* values,
                               int pages, float (&sums)[kTiles][kFragments][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint8_t* const value = ValueRows<kHeadDim>(values, lane);
#pragma unroll
  for (int p = 0; p < kPages; ++p) {
    if (p >= pages) continue;
    uint32_t a[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) RoundWeights<Element>(scores[t][p], a[t]);
#pragma unroll
    for (int d = 0; d < kFragments / 2; ++d) {
      uint32_t b[4];
      LoadMatricesTransposed(b, value + p * PageShape<kHeadDim>::kBytes + d * 32);
      MultiplyBoth<Element>(a, b, sums, d);
    }
  }
}

}  // namespace baton
