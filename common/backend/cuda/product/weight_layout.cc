#include "common/backend/cuda/product/weight_layout.h"

#include <cstring>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr int kBlock = 32;
constexpr int kSuper = 256;
constexpr size_t kMxfp4Bytes = 17;

// Puts the lowest `bits` bits of 32 codes one after the other into `out`.
void PackBits(const uint8_t* codes, int bits, uint8_t* out) {
  const int per_byte = 8 / bits;
  for (int i = 0; i < kBlock; ++i) {
    out[i / per_byte] |=
        static_cast<uint8_t>((codes[i] & ((1 << bits) - 1)) << (i % per_byte * bits));
  }
}

// Puts the codes of block `block` of the row, of 4 bits each, into their group.
void PackGroup(const uint8_t* codes, int block, uint8_t* row) {
  constexpr int kGroupBlocks = kGroupColumns / kBlock;
  uint8_t* const group = row + block / kGroupBlocks * (kGroupColumns / 2);
  for (int k = 0; k < kBlock; ++k) {
    const int word = k / 8 * kGroupBlocks + block % kGroupBlocks;
    const int nibble = k % 8 / 2 + k % 2 * 4;
    group[word * 4 + nibble / 2] |= static_cast<uint8_t>(codes[k] << (nibble % 2 * 4));
  }
}

// Q4_0, Q4_1, MXFP4: `head` bytes of scale and min, or of the exponent, then nibbles; columns j and
// j + 16 share a byte.
void PackNibbleBlock(const uint8_t* file, int head, bool groups, int block, const RowPlanes& planes,
                     uint8_t* row) {
  uint8_t codes[kBlock];
  for (int j = 0; j < 16; ++j) {
    codes[j] = file[head + j] & 15;
    codes[j + 16] = file[head + j] >> 4;
  }
  if (groups) {
    PackGroup(codes, block, row);
  } else {
    PackBits(codes, 4, row + block * 16);
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
    uint8_t codes[kBlock];
    for (int k = 0; k < kBlock; ++k) codes[k] = file[16 + b / 2 * 32 + k] >> (b % 2 * 4) & 15;
    const int block = super * (kSuper / kBlock) + b;
    PackGroup(codes, block, row);
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
    uint8_t low_codes[kBlock];
    uint8_t high_codes[kBlock];
    for (int k = 0; k < kBlock; ++k) {
      low_codes[k] = low[k] >> (quarter / 2 * 4) & 15;
      high_codes[k] = high[k] >> (2 * quarter) & 3;
    }
    const int block = super * (kSuper / kBlock) + b;
    PackBits(low_codes, 4, row + block * 16);
    PackBits(high_codes, 2, row + planes.high + block * 8);
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
