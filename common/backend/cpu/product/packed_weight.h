// The form in which the CPU backend keeps quantised weights: groups of 16 rows, interleaved for dot
// products of four bytes.
//
// A block is 16 rows x 32 columns. Its codes are unsigned bytes in eight quads: quad q holds
// columns 4q..4q+3 of the 16 rows, [row][4].
//   low 4 bits       codes[j] has quad j in its low nibbles and quad j + 4 in its high ones, which
//                    is the file's own pairing of columns
//   fifth bit        bit q of `high` belongs to quad q
//   bits 5, 6 (Q6_K) bits 2 (q mod 4) and 2 (q mod 4) + 1 of high[q / 4] belong to quad q
// Scales and mins keep the file's precision, so that a decode step reads no more than the file has.
#pragma once

#include <cstdint>

#include "common/backend/cpu/simd/lanes.h"

namespace baton {

inline constexpr int kQuantBlock = 32;       // columns of a block
inline constexpr int kSuperblockBlocks = 8;  // blocks of a K-quant's superblock
inline constexpr int kQuads = 8;             // quads of a block
inline constexpr int kQuadBytes = 4 * kLanes;

struct Q4_0Block {  // weight = scale * (code - 8)
  uint8_t codes[4][kQuadBytes];
  uint16_t scale[kLanes];  // F16, as every 16-bit scale and min in this file
};
struct Q4_1Block {  // weight = scale * code + min
  uint8_t codes[4][kQuadBytes];
  uint16_t scale[kLanes];
  uint16_t min[kLanes];
};
struct Q5_0Block {  // weight = scale * (code - 16)
  uint8_t codes[4][kQuadBytes];
  uint8_t high[kQuadBytes];
  uint16_t scale[kLanes];
};
struct Q5_1Block {  // weight = scale * code + min
  uint8_t codes[4][kQuadBytes];
  uint8_t high[kQuadBytes];
  uint16_t scale[kLanes];
  uint16_t min[kLanes];
};
struct Q8_0Block {  // weight = scale * (code - 128)
  uint8_t codes[kQuads][kQuadBytes];
  uint16_t scale[kLanes];
};

// weight = 2^(exponent - 128) * (kMxfp4Codes[code] - 16): the format's magnitudes 0, .5, 1, 1.5, 2, 3,
// 4 and 6 are doubled, so that they are integers. The scales are the E8M0 of OCP's MX formats;
// exponent 255, which means NaN there, is in no block (ValidRow of weight_packing.h).
struct Mxfp4Block {
  uint8_t codes[4][kQuadBytes];
  uint8_t exponent[kLanes];
};
// Not inline: a source for one instruction set shares nothing with other sources (kernels.h).
constexpr uint8_t kMxfp4Codes[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

// weight = (super scale * scale) * code - (super min * min); both products are exact in a float.
template <class Block>
struct MinSuperblock {
  uint16_t scale[kLanes];
  uint16_t min[kLanes];
  Block blocks[kSuperblockBlocks];
};
struct Q4_KBlock {
  uint8_t codes[4][kQuadBytes];
  uint8_t scale[kLanes];
  uint8_t min[kLanes];
};
struct Q5_KBlock {
  uint8_t codes[4][kQuadBytes];
  uint8_t high[kQuadBytes];
  uint8_t scale[kLanes];
  uint8_t min[kLanes];
};
using Q4_KSuperblock = MinSuperblock<Q4_KBlock>;
using Q5_KSuperblock = MinSuperblock<Q5_KBlock>;

// weight = (super scale * scale of the half block) * (code - 2^kQ6KOffsetBits); the product of
// scales is exact.
inline constexpr int kQ6KOffsetBits = 5;
struct Q6_KBlock {
  uint8_t codes[4][kQuadBytes];
  uint8_t high[2][kQuadBytes];
  int8_t scale[2][kLanes];  // scales of columns 0..15 and of columns 16..31
};
struct Q6_KSuperblock {
  uint16_t scale[kLanes];
  Q6_KBlock blocks[kSuperblockBlocks];
};

}  // namespace baton
