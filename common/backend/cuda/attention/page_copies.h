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

  // Chunk `chunk` of a row. Lanes read the same chunk of consecutive rows of int4: the chunks of a
  // row are exchanged so that those of eight rows lie in different banks.
  template <class Byte>
  static __device__ Byte* ChunkAt(Byte* page, int row, int chunk) {
    if constexpr (kIsKvInt4<Stored>) {
      static_assert(8 % kChunks == 0);
      chunk ^= row / (8 / kChunks) % kChunks;
    }
    return page + row * kRowBytes + chunk * 16;
  }
};

// Begins to copy rows [first, end) of a page to `to` [CopiedPage::kBytes]. The other rows become
// zero, so that no NaN lies there: the weight 0 times a NaN is a NaN.
template <class Stored, int kHeadDim>
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
    CopyAsync16(Copied::ChunkAt(to, row, chunk),
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

// Turns a copied page of codes of a byte into the form for the tensor cores, `to`
// [PageShape::kBytes].
template <class Code, int kHeadDim>
__device__ void DequantiseBytes(const uint8_t* from, uint8_t* to, int lane) {
  using Shape = PageShape<kHeadDim>;
  using Copied = CopiedPage<Code, kHeadDim>;
  static_assert(kKvPageTokens * Shape::kChunks % 32 == 0);
  const auto* const scales = reinterpret_cast<const float*>(from + Copied::kScalesAt);
#pragma unroll 2
  for (int i = 0; i < kKvPageTokens * Shape::kChunks / 32; ++i) {
    const int row = (i * 32 + lane) / Shape::kChunks;
    const int chunk = (i * 32 + lane) % Shape::kChunks;
    const float scale = scales[row];
    Floats<8> x =
        LoadFloats<8>(reinterpret_cast<const Code*>(from + row * Copied::kRowBytes) + chunk * 8);
#pragma unroll
    for (float& element : x.values) element *= scale;
    *reinterpret_cast<uint4*>(to + row * Shape::kRowBytes + chunk * 16) = {
        PackPair<__half>(x.values[0], x.values[1]), PackPair<__half>(x.values[2], x.values[3]),
        PackPair<__half>(x.values[4], x.values[5]), PackPair<__half>(x.values[6], x.values[7])};
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

// The codes in the lower halves of bytes 0 and 2 of `bytes`, exactly. A code whose highest bit is
// flipped is code + 8. Beside the exponent of 2^10 it becomes the __half 2^10 + 8 + code.
__device__ inline __half2 LowCodes(uint32_t bytes) {
  constexpr uint32_t kBase = 0x64086408;  // 2^10 + 8
  return __hsub2(HalfPair(MaskAndFlip(bytes, 0x000f000f, kBase)), HalfPair(kBase));
}
// Those in the upper halves, which stay where they are: 2^10 + 16 * (8 + code).
__device__ inline __half2 HighCodes(uint32_t bytes) {
  constexpr uint32_t kBase = 0x64806480;  // 2^10 + 16 * 8
  constexpr uint32_t kSixteenth = 0x2c002c00;
  constexpr uint32_t kLess = 0xd480d480;  // -(2^10 / 16 + 8)
  return __hfma2(HalfPair(MaskAndFlip(bytes, 0x00f000f0, kBase)), HalfPair(kSixteenth),
                 HalfPair(kLess));
}

// DequantiseBytes for int4. A lane takes a whole group.
template <int kHeadDim>
__device__ void DequantiseInt4(const uint8_t* from, uint8_t* to, int lane) {
  using Shape = PageShape<kHeadDim>;
  using Copied = CopiedPage<KvInt4, kHeadDim>;
  constexpr int kGroups = kHeadDim / kKvGroup;
  constexpr int kGroupsAtATime = 32 / kKvPageTokens;
  const int row = lane % kKvPageTokens;
#pragma unroll 2
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

// Returns a key tile [K, V][kPages] in the form for the tensor cores. `copied` holds the first
// `keys` keys of the tile. Codes are converted into `dequantised`, which is then returned. kWarps
// warps call it, each with its number `warp`; if more than one, they are all warps of the block.
template <class Stored, int kHeadDim, int kPages, int kWarps>
__device__ const uint8_t* TakeTile(int warp, int keys, const uint8_t* copied,
                                   uint8_t* dequantised) {
  if constexpr (kIsFloat<Stored>) {
    return copied;
  } else {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int i = warp; i < 2 * kPages; i += kWarps) {
      if (i % kPages * kKvPageTokens >= keys) continue;
      const uint8_t* const from = copied + i * CopiedPage<Stored, kHeadDim>::kBytes;
      uint8_t* const to = dequantised + i * PageShape<kHeadDim>::kBytes;
      if constexpr (kIsKvInt4<Stored>) {
        DequantiseInt4<kHeadDim>(from, to, lane);
      } else {
        DequantiseBytes<Stored, kHeadDim>(from, to, lane);
      }
    }
    if constexpr (kWarps == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
    return dequantised;
  }
}

}  // namespace baton
