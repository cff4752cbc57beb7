#include <cstring>

#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/weight/pack_rows.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "common/base/check.h"

namespace baton {

constexpr int kThreads = 256;
constexpr int kBlock = 32;
constexpr int kSuperBlocks = 8;  // blocks of 256 columns

// Bytes of a block in a file.
constexpr int FileBlockBytes(CudaElement element) {
  switch (element) {
    case CudaElement::kQ8_0:
      return 34;
    case CudaElement::kQ4_0:
      return 18;
    case CudaElement::kQ4_1:
      return 20;
    case CudaElement::kMxfp4:
      return 17;
    case CudaElement::kQ4_K:
      return 144;
    default:
      return 210;  // Q6_K
  }
}

// Codes are packed eight at a time, each in a byte of a word, the first in the lowest byte.
constexpr int kWordCodes = 8;
constexpr int kBlockWords = kBlock / kWordCodes;
constexpr uint64_t kLowNibbles = 0x0f0f0f0f0f0f0f0f;
constexpr uint64_t kEvenBytes = 0x00ff00ff00ff00ff;

struct BlockCodes {
  uint64_t words[kBlockWords];
};

// Bits `shift` and above of 32 bytes, as far as `mask`, which is the same in every byte, has them.
static __device__ BlockCodes CodesAt(const uint8_t* bytes, int shift, uint64_t mask) {
  BlockCodes codes;
  std::memcpy(codes.words, bytes, sizeof(codes.words));
#pragma unroll
  for (uint64_t& word : codes.words) word = word >> shift & mask;
  return codes;
}

// The lowest 4 bits of eight codes, one after the other.
static __device__ uint32_t NibblesOf(uint64_t codes) {
  codes = (codes | codes >> 4) & 0x00ff00ff00ff00ff;
  codes = (codes | codes >> 8) & 0x0000ffff0000ffff;
  return static_cast<uint32_t>(codes | codes >> 16);
}

// The lowest 4 bits of four codes, one in each 16, one after the other.
static __device__ uint32_t FourOf(uint64_t codes) {
  codes |= codes >> 12;
  return static_cast<uint32_t>((codes | codes >> 24) & 0xffff);
}

// The codes of even columns, then, 16 bits above, those of odd ones.
static __device__ uint32_t EvenThenOdd(uint64_t codes) {
  return FourOf(codes & kEvenBytes) | FourOf(codes >> 8 & kEvenBytes) << 16;
}

// The word of a group (weight_layout.h).
template <CudaElement kElement>
static __device__ uint32_t GroupWordOf(uint64_t codes) {
  if constexpr (kElement == CudaElement::kMxfp4) {
    return NibblesOf(codes & 0x0707070707070707) | EvenThenOdd(codes >> 3 & 0x0101010101010101)
                                                       << 3;
  } else {
    return EvenThenOdd(codes);
  }
}

constexpr int kGroupBlocks = kGroupColumns / kBlock;

// The group of block `block` in a plane that has `bytes` of each group.
static __device__ uint8_t* GroupAt(uint8_t* plane, int block, int bytes) {
  return plane + block / kGroupBlocks * bytes;
}

// Puts a block's codes of 4 bits into every fourth word of its group.
template <CudaElement kElement>
static __device__ void PackNibbles(const BlockCodes& codes, int block, uint8_t* row) {
  auto* const words = reinterpret_cast<uint32_t*>(GroupAt(row, block, kGroupColumns / 2));
#pragma unroll
  for (int t = 0; t < kBlockWords; ++t) {
    words[t * kGroupBlocks + block % kGroupBlocks] = GroupWordOf<kElement>(codes.words[t]);
  }
}

// Q8_0: a scale, then 32 signed bytes.
static __device__ void PackQ8_0(const uint8_t* file, int block, const RowPlanes& planes,
                                uint8_t* row) {
  std::memcpy(row + block * kBlock, file + 2, kBlock);
  std::memcpy(row + planes.parts + block * 2, file, 2);
}

// Q4_0, Q4_1, MXFP4: a head of scale and min, or of the exponent, then nibbles; columns j and
// j + 16 share a byte.
template <CudaElement kElement>
static __device__ void PackNibbleBlock(const uint8_t* file, int block, const RowPlanes& planes,
                                       uint8_t* row) {
  constexpr int kHead = FileBlockBytes(kElement) - kBlock / 2;
  uint64_t both[kBlockWords / 2];
  std::memcpy(both, file + kHead, sizeof(both));
  PackNibbles<kElement>({{both[0] & kLowNibbles, both[1] & kLowNibbles, both[0] >> 4 & kLowNibbles,
                          both[1] >> 4 & kLowNibbles}},
                        block, row);
  std::memcpy(row + planes.parts + block * kHead, file, kHead);
}

// Q4_K: scale and min, then 12 bytes of 8 scales and 8 mins of 6 bits, then nibbles. Of 64 columns
// the first 32 are in the low nibbles. The scale and min of block b < 4 are the low six bits of
// bytes b and b + 4. For b >= 4 their low four bits are in byte b + 4, and their upper two bits are
// the upper two bits of bytes b - 4 and b.
static __device__ void PackQ4_K(const uint8_t* file, int block, const RowPlanes& planes,
                                uint8_t* row) {
  const uint8_t* const packed = file + 4;
  const int b = block % kSuperBlocks;
  PackNibbles<CudaElement::kQ4_K>(CodesAt(file + 16 + b / 2 * 32, b % 2 * 4, kLowNibbles), block,
                                  row);
  uint8_t* const part = row + planes.parts + block * 2;
  if (b < 4) {
    part[0] = packed[b] & 63;
    part[1] = packed[b + 4] & 63;
  } else {
    // tests/planted_bugs: kernel_upper_bits_of_the_other_scale
    part[0] = static_cast<uint8_t>((packed[b + 4] & 15) | packed[b - 4] >> 6 << 4);
    part[1] = static_cast<uint8_t>(packed[b + 4] >> 4 | packed[b] >> 6 << 4);
  }
  if (b == 0) std::memcpy(row + planes.supers + block / kSuperBlocks * 4, file, 4);
}

// Four codes of six bits, one in each 16, as Q6_K has them (weight_layout.h).
struct SixBits {
  uint32_t half;
  uint8_t byte;
};
static __device__ SixBits SixBitsOf(uint64_t codes) {
  return {static_cast<uint32_t>((codes & 63) | (codes >> 10 & 63 << 6) | (codes >> 20 & 15 << 12)),
          static_cast<uint8_t>((codes >> 48 & 63) | (codes >> 30 & 3 << 6))};
}

// The codes of a block so that a word has four columns of each half.
static __device__ BlockCodes ByHalves(const BlockCodes& codes) {
  BlockCodes mixed;
#pragma unroll
  for (int t = 0; t < kBlockWords; ++t) {
    const int shift = t % 2 * 32;
    const uint64_t first = codes.words[t / 2] >> shift & 0xffffffff;
    mixed.words[t] = first | codes.words[2 + t / 2] >> shift << 32;
  }
  return mixed;
}

// Q6_K: 128 bytes of nibbles and 64 bytes of upper bits, of which a half of 128 columns has 64 and
// 32; then 16 signed scales, then the scale. Quarter c (32 columns) of a half has nibble c / 2 of
// bytes 32 * (c % 2) + k, and bits 2c and 2c + 1 of byte k.
static __device__ void PackQ6_K(const uint8_t* file, int block, const RowPlanes& planes,
                                uint8_t* row) {
  const int b = block % kSuperBlocks;
  const int quarter = b % 4;
  const uint8_t* const low = file + b / 4 * 64 + quarter % 2 * 32;
  const uint8_t* const high = file + 128 + b / 4 * 32;
  const BlockCodes lower = ByHalves(CodesAt(low, quarter / 2 * 4, kLowNibbles));
  const BlockCodes upper = ByHalves(CodesAt(high, 2 * quarter, 0x0303030303030303));
  auto* const words = reinterpret_cast<uint32_t*>(GroupAt(row, block, kGroupColumns / 2));
  uint8_t* const group = GroupAt(row + planes.high, block, kGroupColumns / 4);
#pragma unroll
  for (int t = 0; t < kBlockWords; ++t) {
    const uint64_t codes = lower.words[t] | upper.words[t] << 4;
    const SixBits even = SixBitsOf(codes & kEvenBytes);
    const SixBits odd = SixBitsOf(codes >> 8 & kEvenBytes);
    words[t * kGroupBlocks + block % kGroupBlocks] = even.half | odd.half << 16;
    uint8_t* const at = group + t * 8 + block % kGroupBlocks / 2 * 4 + block % 2;
    at[0] = even.byte;
    at[2] = odd.byte;
  }
  std::memcpy(row + planes.parts + block * 2, file + 192 + 2 * b, 2);
  if (b == 0) std::memcpy(row + planes.supers + block / kSuperBlocks * 2, file + 208, 2);
}

// A thread packs 32 columns. `blocks`: all of them; `row_blocks`: those of a row.
template <CudaElement kElement>
static __global__ void __launch_bounds__(kThreads)
    PackRowsKernel(const uint8_t* file, int64_t blocks, int row_blocks, RowPlanes planes,
                   uint8_t* rows) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= blocks) return;
  constexpr int kFileBlocks = BlockColumns(kElement) / kBlock;
  const uint8_t* const from = file + index / kFileBlocks * FileBlockBytes(kElement);
  const auto block = static_cast<int>(index % row_blocks);
  uint8_t* const row = rows + index / row_blocks * planes.end;
  if constexpr (kElement == CudaElement::kQ8_0) {
    PackQ8_0(from, block, planes, row);
  } else if constexpr (kElement == CudaElement::kQ4_K) {
    PackQ4_K(from, block, planes, row);
  } else if constexpr (kElement == CudaElement::kQ6_K) {
    PackQ6_K(from, block, planes, row);
  } else {
    PackNibbleBlock<kElement>(from, block, planes, row);
  }
}

void LaunchPackRows(CudaElement element, const uint8_t* file, size_t count, int columns,
                    uint8_t* rows, cudaStream_t stream) {
  BATON_CHECK(count > 0 && columns % BlockColumns(element) == 0, "rows must be whole blocks",
              columns);
  // tests/planted_bugs: kernel_padding_of_rows_left_as_it_was
  CheckCuda(cudaMemsetAsync(rows, 0, count * CudaRowBytes(element, columns), stream),
            "cudaMemsetAsync");
  const int row_blocks = columns / kBlock;
  const int64_t blocks = static_cast<int64_t>(count) * row_blocks;
  const auto launch = [&](auto kernel) {
    Launch(kernel, {.grid = BlocksFor(blocks, kThreads), .block = kThreads, .stream = stream}, file,
           blocks, row_blocks, PlanesOf(element, columns), rows);
  };
  switch (element) {
    case CudaElement::kQ8_0:
      return launch(PackRowsKernel<CudaElement::kQ8_0>);
    case CudaElement::kQ4_0:
      return launch(PackRowsKernel<CudaElement::kQ4_0>);
    case CudaElement::kQ4_1:
      return launch(PackRowsKernel<CudaElement::kQ4_1>);
    case CudaElement::kMxfp4:
      return launch(PackRowsKernel<CudaElement::kMxfp4>);
    case CudaElement::kQ4_K:
      return launch(PackRowsKernel<CudaElement::kQ4_K>);
    case CudaElement::kQ6_K:
      return launch(PackRowsKernel<CudaElement::kQ6_K>);
    default:
      BATON_CHECK(false, "the weight must be quantised");
  }
}

}  // namespace baton
