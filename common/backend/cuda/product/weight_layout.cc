#include "common/backend/cuda/product/weight_layout.h"

#include <cstring>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr int kBlock = 32;
constexpr int kSuper = 256;
constexpr size_t kMxfp4Bytes = 17;

// Codes are packed eight at a time, each in a byte of a word, the first in the lowest byte: one
// after the other they take several times as long.
constexpr int kWordCodes = 8;
constexpr int kBlockWords = kBlock / kWordCodes;
constexpr uint64_t kLowNibbles = 0x0f0f0f0f0f0f0f0f;

struct BlockCodes {
  uint64_t words[kBlockWords];
};

// Bits `shift` and above of 32 bytes, as far as `mask`, which is the same in every byte, has them.
BlockCodes CodesAt(const uint8_t* bytes, int shift, uint64_t mask) {
  BlockCodes codes;
  std::memcpy(codes.words, bytes, sizeof(codes.words));
  for (uint64_t& word : codes.words) word = word >> shift & mask;
  return codes;
}

// The lowest 4 bits of eight codes, one after the other.
uint32_t NibblesOf(uint64_t codes) {
  codes = (codes | codes >> 4) & 0x00ff00ff00ff00ff;
  codes = (codes | codes >> 8) & 0x0000ffff0000ffff;
  return static_cast<uint32_t>(codes | codes >> 16);
}

// The lowest 2 bits of eight codes, one after the other.
uint16_t BitPairsOf(uint64_t codes) {
  codes = (codes | codes >> 6) & 0x000f000f000f000f;
  codes = (codes | codes >> 12) & 0x000000ff000000ff;
  return static_cast<uint16_t>(codes | codes >> 24);
}

// The word of a group: the codes of even columns, then those of odd ones.
uint32_t GroupWordOf(uint64_t codes) {
  const auto every_other = [](uint64_t four) {  // one code in each 16 bits
    four |= four >> 12;
    return static_cast<uint32_t>((four | four >> 24) & 0xffff);
  };
  constexpr uint64_t kEven = 0x00ff00ff00ff00ff;
  return every_other(codes & kEven) | every_other(codes >> 8 & kEven) << 16;
}

// Puts the codes of block `block` of the row, of 4 bits each, into their group.
void PackGroup(const BlockCodes& codes, int block, uint8_t* row) {
  constexpr int kGroupBlocks = kGroupColumns / kBlock;
  uint8_t* const group = row + block / kGroupBlocks * (kGroupColumns / 2);
  for (int t = 0; t < kBlockWords; ++t) {
    const uint32_t word = GroupWordOf(codes.words[t]);
    std::memcpy(group + (t * kGroupBlocks + block % kGroupBlocks) * 4, &word, sizeof(word));
  }
}

// Puts the codes of a block, of 4 bits each, one after the other into `out`.
void PackNibbles(const BlockCodes& codes, uint8_t* out) {
  for (int t = 0; t < kBlockWords; ++t) {
    const uint32_t nibbles = NibblesOf(codes.words[t]);
    std::memcpy(out + t * 4, &nibbles, sizeof(nibbles));
  }
}

// Q4_0, Q4_1, MXFP4: `head` bytes of scale and min, or of the exponent, then nibbles; columns j and
// j + 16 share a byte.
void PackNibbleBlock(const uint8_t* file, int head, bool groups, int block, const RowPlanes& planes,
                     uint8_t* row) {
  uint64_t both[kBlockWords / 2];
  std::memcpy(both, file + head, sizeof(both));
  const BlockCodes codes = {{both[0] & kLowNibbles, both[1] & kLowNibbles,
                             both[0] >> 4 & kLowNibbles, both[1] >> 4 & kLowNibbles}};
  if (groups) {
    PackGroup(codes, block, row);
  } else {
    PackNibbles(codes, row + block * 16);
  }
  std::memcpy(row + planes.parts + block * head, file, static_cast<size_t>(head));
}

// Q8_0: a scale, then 32 signed bytes.
void PackQ8_0(const uint8_t* file, int block, const RowPlanes& planes, uint8_t* row) {
  std::memcpy(row + block * kBlock, file + 2, kBlock);
  std::memcpy(row + planes.parts + block * 2, file, 2);
}

// Q4_K: scale and min, then 12 bytes of 8 scales and 8 mins of 6 bits, then nibbles. Of 64 columns
// the first 32 are in the low nibbles. The scale and min of block b < 4 are the low six bits of
// bytes b and b + 4. For b >= 4 their low four bits are in byte b + 4, and their upper two bits are
// the upper two bits of bytes b - 4 and b.
void PackQ4_K(const uint8_t* file, int super, const RowPlanes& planes, uint8_t* row) {
  const uint8_t* packed = file + 4;
  for (int b = 0; b < kSuper / kBlock; ++b) {
    const int block = super * (kSuper / kBlock) + b;
    PackGroup(CodesAt(file + 16 + b / 2 * 32, b % 2 * 4, kLowNibbles), block, row);
    uint8_t* part = row + planes.parts + block * 2;
    if (b < 4) {
      part[0] = packed[b] & 63;
      part[1] = packed[b + 4] & 63;
    } else {
      part[0] = static_cast<uint8_t>((packed[b + 4] & 15) | packed[b - 4] >> 6 << 4);
      part[1] = static_cast<uint8_t>(packed[b + 4] >> 4 | packed[b] >> 6 << 4);
    }
  }
  std::memcpy(row + planes.supers + super * 4, file, 4);
}

// Q6_K: 128 bytes of nibbles and 64 bytes of upper bits, of which a half of 128 columns has 64 and
// 32; then 16 signed scales, then the scale. Quarter c (32 columns) of a half has nibble c / 2 of
// bytes 32 * (c % 2) + k, and bits 2c and 2c + 1 of byte k.
void PackQ6_K(const uint8_t* file, int super, const RowPlanes& planes, uint8_t* row) {
  for (int b = 0; b < kSuper / kBlock; ++b) {
    const int quarter = b % 4;
    const uint8_t* low = file + b / 4 * 64 + quarter % 2 * 32;
    const uint8_t* high = file + 128 + b / 4 * 32;
    const int block = super * (kSuper / kBlock) + b;
    PackNibbles(CodesAt(low, quarter / 2 * 4, kLowNibbles), row + block * 16);
    const BlockCodes upper = CodesAt(high, 2 * quarter, 0x0303030303030303);
    for (int t = 0; t < kBlockWords; ++t) {
      const uint16_t pairs = BitPairsOf(upper.words[t]);
      std::memcpy(row + planes.high + block * 8 + t * 2, &pairs, sizeof(pairs));
    }
    std::memcpy(row + planes.parts + block * 2, file + 192 + 2 * b, 2);
  }
  std::memcpy(row + planes.supers + super * 2, file + 208, 2);
}

// Calls pack(block, index) for each block of the file's row.
template <class Pack>
void ForEachBlock(const uint8_t* file, int blocks, size_t file_bytes, const Pack& pack) {
  for (int b = 0; b < blocks; ++b) pack(file + static_cast<size_t>(b) * file_bytes, b);
}

}  // namespace

bool ValidFileRow(CudaElement element, const uint8_t* file, int columns) {
  if (element != CudaElement::kMxfp4) return true;
  for (int b = 0; b < columns / kBlock; ++b) {
    if (file[static_cast<size_t>(b) * kMxfp4Bytes] == 255) return false;
  }
  return true;
}

void PackCudaRow(CudaElement element, const uint8_t* file, int columns, uint8_t* row) {
  BATON_CHECK(columns % BlockColumns(element) == 0, "whole blocks");
  const int blocks = columns / BlockColumns(element);
  const RowPlanes planes = PlanesOf(element, columns);
  switch (element) {
    case CudaElement::kQ8_0:
      return ForEachBlock(file, blocks, 34,
                          [&](const uint8_t* in, int b) { PackQ8_0(in, b, planes, row); });
    case CudaElement::kQ4_0:
      return ForEachBlock(file, blocks, 18, [&](const uint8_t* in, int b) {
        PackNibbleBlock(in, 2, HasCodeGroups(element), b, planes, row);
      });
    case CudaElement::kQ4_1:
      return ForEachBlock(file, blocks, 20, [&](const uint8_t* in, int b) {
        PackNibbleBlock(in, 4, HasCodeGroups(element), b, planes, row);
      });
    case CudaElement::kMxfp4:
      return ForEachBlock(file, blocks, kMxfp4Bytes, [&](const uint8_t* in, int b) {
        PackNibbleBlock(in, 1, HasCodeGroups(element), b, planes, row);
      });
    case CudaElement::kQ4_K:
      return ForEachBlock(file, blocks, 144,
                          [&](const uint8_t* in, int b) { PackQ4_K(in, b, planes, row); });
    case CudaElement::kQ6_K:
      return ForEachBlock(file, blocks, 210,
                          [&](const uint8_t* in, int b) { PackQ6_K(in, b, planes, row); });
    default:
      std::memcpy(row, file, static_cast<size_t>(columns) * ElementBytes(element));
  }
}

}  // namespace baton
