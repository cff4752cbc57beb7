// Pages on their way from the cache to the tensor cores: how they are copied to shared memory, and
// how codes become the elements that are multiplied. Whole warps call everything here.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/backend/cuda/attention/attention_args.h"
#include "common/backend/cuda/attention/attention_pages.h"
#include "common/backend/cuda/device/device.h"
#include "ptx.h"

namespace baton {

// A page as it is copied: rows, each at a multiple of kRowBytes, then the rows' scales. Floats have
// no scales, and are in the form for the tensor cores.
template <class Stored, int kHeadDim>
struct CopiedPage {
  static constexpr int kElementBytes = static_cast<int>(
      kIsKvInt4<Stored> ? KvHeadBytes(KvType::kInt4, kHeadDim) : kHeadDim * sizeof(Stored));
  static constexpr int kChunks = kElementBytes / 16;  // chunks of 16 bytes in a row
  static constexpr int kRowBytes =
      kIsFloat<Stored> ? PageShape<kHeadDim>::kRowBytes : kElementBytes;
  static constexpr int kScalesAt = kKvPageTokens * kRowBytes;
  // Bytes of a row's scales.
  static constexpr int kScaleBytes =
      static_cast<int>(kIsKvInt4<Stored>   ? KvScaleBytes(KvType::kInt4, kHeadDim)
                       : kIsKvCode<Stored> ? sizeof(float)
                                           : 0);
  static constexpr int kBytes = kScalesAt + kKvPageTokens * kScaleBytes;

  // Chunk `chunk` of a row. The chunks of a row are exchanged so that what lanes read together lies
  // in different banks: of int4 the same chunk of consecutive rows, of a page for a CodeTile that
  // too, or four consecutive chunks of two rows.
  template <bool kForCodeTile = false, class Byte>
  static __device__ Byte* ChunkAt(Byte* page, int row, int chunk) {
    // tests/planted_bugs: kernel_chunk_banks
    if constexpr (kIsKvInt4<Stored>) {
      static_assert(8 % kChunks == 0);
      chunk ^= row / (8 / kChunks) % kChunks;
    } else if constexpr (kForCodeTile) {
      static_assert(kChunks == 4 || kChunks % 8 == 0);
      chunk ^= row / 2 % 4 + (kChunks == 4 ? 0 : row % 2 * 4);
    }
    return page + row * kRowBytes + chunk * 16;
  }
};

// Whether there is a CodeTile (code_tile.h) for such a cache.
template <class Stored, int kHeadDim>
inline constexpr bool kHasCodeTile = kIsKvCode<Stored>&& kHeadDim % 64 == 0;

// Begins to copy rows [first, end) of a page to `to` [CopiedPage::kBytes]. The other rows become
// zero, so that no NaN lies there: the weight 0 times a NaN is a NaN. kForCodeTile: the page is for a
// CodeTile.
template <class Stored, int kHeadDim, bool kForCodeTile = false>
__device__ void CopyPage(const HeadRows& from, int first, int end, uint8_t* to, int lane) {
  using Copied = CopiedPage<Stored, kHeadDim>;
  constexpr int kChunks = Copied::kChunks;
  // 32 bits, so that a multiplication and the addition to an address are one instruction.
  const auto row_bytes = static_cast<uint32_t>(from.row_bytes);
  [[maybe_unused]] const auto scale_bytes = static_cast<uint32_t>(from.scale_bytes);
#pragma unroll
  for (int i = 0; i < (kKvPageTokens * kChunks + 31) / 32; ++i) {
    // Where a warp's 32 chunks are whole rows, the lane always has the same chunk.
    constexpr bool kWhole = 32 % kChunks == 0;
    const int row = kWhole ? i * (32 / kChunks) + lane / kChunks : (i * 32 + lane) / kChunks;
    const int chunk = kWhole ? lane % kChunks : (i * 32 + lane) % kChunks;
    if (kKvPageTokens * kChunks % 32 != 0 && row >= kKvPageTokens) continue;
    CopyAsync16(Copied::template ChunkAt<kForCodeTile>(to, row, chunk),
                from.rows + size_t{static_cast<uint32_t>(row)} * row_bytes + chunk * 16,
                row >= first && row < end ? 16 : 0);
  }
  if constexpr (!kIsFloat<Stored>) {
    if (lane < kKvPageTokens) {
      CopyAsync<Copied::kScaleBytes>(
          to + Copied::kScalesAt + lane * Copied::kScaleBytes,
          from.scales + size_t{static_cast<uint32_t>(lane)} * scale_bytes,
          lane >= first && lane < end);
    }
  }
}

__device__ inline __half2 HalfPair(uint32_t bits) {
  __half2 pair;
  memcpy(&pair, &bits, sizeof(pair));
  return pair;
}

__device__ inline uint32_t BitsOf(__half2 pair) {
  uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}

// Four codes of a byte as halves, exactly, in two registers:
//   Neighbours: those in bytes 0 and 1 of `codes`, and those in bytes 2 and 3
//   Alternate:  those in bytes 0 and 2, and those in bytes 1 and 3
template <class Code>
struct CodeHalves;

// A code whose highest bit is flipped is code + 128. Beside the exponent of 2^10 it becomes the
// __half 2^10 + 128 + code.
template <>
struct CodeHalves<KvInt8> {
  static constexpr uint32_t kBase = 0x64806480;  // 2^10 + 128
  static __device__ uint32_t LessBase(uint32_t pair) {
    return BitsOf(__hsub2(HalfPair(pair), HalfPair(kBase)));
  }
  static __device__ void Neighbours(uint32_t codes, uint32_t (&halves)[2]) {
    constexpr uint32_t kExponents = 0x64646464;
    const uint32_t flipped = codes ^ 0x80808080u;
    halves[0] = LessBase(__byte_perm(flipped, kExponents, 0x4140));
    halves[1] = LessBase(__byte_perm(flipped, kExponents, 0x4342));
  }
  static __device__ void Alternate(uint32_t codes, uint32_t (&halves)[2]) {
    halves[0] = LessBase(MaskAndFlip(codes, 0x00ff00ff, kBase));
    halves[1] = LessBase(MaskAndFlip(codes >> 8, 0x00ff00ff, kBase));
  }
};

template <>
struct CodeHalves<KvFp8> {
  static __device__ void Neighbours(uint32_t codes, uint32_t (&halves)[2]) {
    WidenE4m3(codes, halves);
  }
  static __device__ void Alternate(uint32_t codes, uint32_t (&halves)[2]) {
    WidenE4m3(__byte_perm(codes, 0, 0x3120), halves);
  }
};

// The scales of two of the keys, or values, of a copied page of codes of a byte: those that this
// lane has in a matrix of the tensor cores, of half `half` of the page.
template <class Code, int kHeadDim>
__device__ float2 ScalesOf(const uint8_t* page, int half) {
  const auto* const pairs =
      reinterpret_cast<const float2*>(page + CopiedPage<Code, kHeadDim>::kScalesAt);
  // tests/planted_bugs: kernel_scores_with_scales_of_other_keys
  return pairs[half * 4 + static_cast<int>(threadIdx.x) % 4];
}

// Makes scores of the products of queries and the codes of a copied page, the tile's page `p`.
template <class Code, int kHeadDim, int kTiles, int kPages>
__device__ void ScaleScores(const uint8_t* page, int p, float (&scores)[kTiles][kPages][2][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float2 two = ScalesOf<Code, kHeadDim>(page, half);
    const float scale[2] = {two.x, two.y};
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[t][p][half][i] *= scale[i % 2];
    }
  }
}

// Turns a copied page of codes of a byte into the form for the tensor cores, `to`
// [PageShape::kBytes]. Without their scales, which KeyTile::ScoreKeys gives the scores, or with
// them, rounded.
template <class Code, int kHeadDim, bool kScaled>
__device__ void WidenBytes(const uint8_t* from, uint8_t* to, int lane) {
  using Shape = PageShape<kHeadDim>;
  using Copied = CopiedPage<Code, kHeadDim>;
  using Halves = CodeHalves<Code>;
  static_assert(kKvPageTokens * Shape::kChunks % 32 == 0);
  const auto* const scales = reinterpret_cast<const float*>(from + Copied::kScalesAt);
#pragma unroll
  for (int i = 0; i < kKvPageTokens * Shape::kChunks / 32; ++i) {
    const int row = (i * 32 + lane) / Shape::kChunks;
    const int chunk = (i * 32 + lane) % Shape::kChunks;
    const auto codes = *reinterpret_cast<const uint2*>(from + row * Copied::kRowBytes + chunk * 8);
    uint32_t pairs[2][2];
    Halves::Neighbours(codes.x, pairs[0]);
    Halves::Neighbours(codes.y, pairs[1]);
    if constexpr (kScaled) {
      const float scale = scales[row];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        uint32_t& pair = pairs[k / 2][k % 2];
        const float2 both = __half22float2(HalfPair(pair));
        pair = PackPair<__half>(both.x * scale, both.y * scale);
      }
    }
    *reinterpret_cast<uint4*>(to + row * Shape::kRowBytes + chunk * 16) = {
        pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1]};
  }
}

// The codes in the lower halves of bytes 0 and 2 of `bytes`, exactly. A code whose highest bit is
// flipped is code + 8. Beside the exponent of 2^10 it becomes the __half 2^10 + 8 + code.
__device__ inline __half2 LowCodes(uint32_t bytes) {
  constexpr uint32_t kBase = 0x64086408;  // 2^10 + 8
  return __hsub2(HalfPair(MaskAndFlip(bytes, 0x000f000f, kBase)), HalfPair(kBase));
}
// Those in the upper halves, which stay where they are: 2^10 + 16 * (8 + code).
__device__ inline __half2 HighCodes(uint32_t bytes) {
  // tests/planted_bugs: kernel_int4_code_without_its_sign
  constexpr uint32_t kBase = 0x64806480;  // 2^10 + 16 * 8
  constexpr uint32_t kSixteenth = 0x2c002c00;
  constexpr uint32_t kLess = 0xd480d480;  // -(2^10 / 16 + 8)
  return __hfma2(HalfPair(MaskAndFlip(bytes, 0x00f000f0, kBase)), HalfPair(kSixteenth),
                 HalfPair(kLess));
}

// Turns a copied page of int4 into the form for the tensor cores. A lane takes a whole group.
template <int kHeadDim>
__device__ void DequantiseInt4(const uint8_t* from, uint8_t* to, int lane) {
  using Shape = PageShape<kHeadDim>;
  using Copied = CopiedPage<KvInt4, kHeadDim>;
  constexpr int kGroups = kHeadDim / kKvGroup;
  constexpr int kGroupsAtATime = 32 / kKvPageTokens;
  const int row = lane % kKvPageTokens;
#pragma unroll
  for (int i = 0; i < kGroups / kGroupsAtATime; ++i) {
    const int group = i * kGroupsAtATime + lane / kKvPageTokens;
    static_assert(kKvGroup / 2 == 16, "a group is a chunk");
    const auto codes = *reinterpret_cast<const uint4*>(Copied::ChunkAt(from, row, group));
    const __half2 scale = __half2half2(reinterpret_cast<const __half*>(
        from + Copied::kScalesAt + row * Copied::kScaleBytes)[group]);
    const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
    uint32_t low[8];   // elements 0 to 15 of the group, by pairs
    uint32_t high[8];  // elements 16 to 31
#pragma unroll
    for (int pair = 0; pair < 8; ++pair) {
      // Neighbouring bytes, with one between them.
      const uint32_t bytes = __byte_perm(words[pair / 2], 0, pair % 2 == 0 ? 0x4140 : 0x4342);
      low[pair] = BitsOf(__hmul2(LowCodes(bytes), scale));
      high[pair] = BitsOf(__hmul2(HighCodes(bytes), scale));
    }
    auto* const out =
        reinterpret_cast<uint4*>(to + row * Shape::kRowBytes + group * kKvGroup * sizeof(__half));
    out[0] = {low[0], low[1], low[2], low[3]};
    out[1] = {low[4], low[5], low[6], low[7]};
    out[2] = {high[0], high[1], high[2], high[3]};
    out[3] = {high[4], high[5], high[6], high[7]};
  }
}

// A tile of keys in the form for the tensor cores.
template <class Stored, int kHeadDim, int kPages_>
struct KeyTile {
  using Element = MatrixElement<Stored>;
  static constexpr int kPages = kPages_;
  static constexpr int kPartBytes = kPages * PageShape<kHeadDim>::kBytes;

  const uint8_t* keys;  // [kPages], and behind them as many pages of values
  // [kPages] copied pages of keys. Those of codes of a byte have scales that `keys` lack.
  const uint8_t* copied;

  __device__ const uint8_t* Values(int first_column) const {
    return keys + kPartBytes + first_column * sizeof(Element);
  }

  // scores = queries times the keys of the first `pages` pages, laid out as by MultiplyKeys.
  template <int kTiles>
  __device__ void ScoreKeys(const uint8_t* queries, int pages,
                            float (&scores)[kTiles][kPages][2][4]) const {
    MultiplyKeys<Element, kHeadDim>(queries, keys, pages, scores);
    if constexpr (kIsKvCode<Stored>) {
#pragma unroll
      for (int p = 0; p < kPages; ++p) {
        if (p >= pages) continue;
        ScaleScores<Stored, kHeadDim>(copied + p * CopiedPage<Stored, kHeadDim>::kBytes, p, scores);
      }
    }
  }
};

// Turns page `i` of the copied [K, V][kPages] into the form for the tensor cores, at `to`.
template <class Stored, int kHeadDim, int kPages>
__device__ void WidenPage(int i, const uint8_t* copied, uint8_t* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint8_t* const from = copied + i * CopiedPage<Stored, kHeadDim>::kBytes;
  to += i * PageShape<kHeadDim>::kBytes;
  if constexpr (kIsKvInt4<Stored>) {
    DequantiseInt4<kHeadDim>(from, to, lane);
  } else if (i < kPages) {
    WidenBytes<Stored, kHeadDim, /*kScaled=*/false>(from, to, lane);
  } else {
    WidenBytes<Stored, kHeadDim, /*kScaled=*/true>(from, to, lane);
  }
}

// The key tile of `copied` [K, V][kPages], which holds the first `keys` keys of it. Codes are
// widened into `widened`. kWarps warps call it, each with its number `warp`; if more than one, they
// are all warps of the block.
template <class Stored, int kHeadDim, int kPages, int kWarps>
__device__ KeyTile<Stored, kHeadDim, kPages> TakeTile(int warp, int keys, const uint8_t* copied,
                                                      uint8_t* widened) {
  if constexpr (kIsFloat<Stored>) {
    return {copied, copied};
  } else {
#pragma unroll
    for (int i = 0; i < 2 * kPages; i += kWarps) {
      const int page = i + (kWarps == 1 ? 0 : warp);
      if (2 * kPages % kWarps != 0 && page >= 2 * kPages) continue;
      if (page % kPages * kKvPageTokens >= keys) continue;
      WidenPage<Stored, kHeadDim, kPages>(page, copied, widened);
    }
    if constexpr (kWarps == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
    return {widened, copied};
  }
}

}  // namespace baton
