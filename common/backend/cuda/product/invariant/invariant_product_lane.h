// The work of one lane in the kernels of invariant_product.h: read weights, make mma operands of
// them, multiply. This file, and invariant_bf16_stage.h, decide the order of an element's sum.
//
// With g = lane / 4 and t = lane % 4, a lane holds of an mma's operands:
//   A  16 outputs          outputs g and g + 8
//   B  8 rows of the input row g
//   D                      outputs g and g + 8 of rows 2t and 2t + 1
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "common/backend/cuda/product/formats/bf16_pair.h"
#include "common/backend/cuda/product/formats/group_format.h"
#include "common/backend/cuda/product/formats/weight_format.h"
#include "common/backend/cuda/product/invariant/invariant_product.h"
#include "common/backend/cuda/product/product_output.h"
#include "ptx.h"

namespace baton {

struct InvariantArgs {
  struct Matrix {
    const uint8_t* weight;  // [rows, row_bytes]
    float* out;             // [input rows, rows]
    int rows;
    int first_unit;  // index of the matrix's first unit among those of all matrices
    bool accumulate;
    float scale;
  };
  const uint8_t* terms;    // ProductTerms::data
  int64_t term_bytes;      // bytes from one term to the next
  int64_t term_row_bytes;  // bytes from one row to the next
  int rows;
  int row_tiles;  // tiles of rows, each of one thread block
  int columns;
  int tiles;          // tiles of kTileColumns columns
  int part_tiles;     // column tiles of a part
  int64_t row_bytes;  // bytes of a weight's row
  // Thread blocks that a tile's columns are divided among, by parts; 1: one has all. If more, their
  // sums [tiles][splits][kSplitSumBytes], and counters [tiles].
  int splits;
  uint8_t* split_sums;
  int32_t* split_arrivals;
  int matrix_count;
  Matrix matrices[kMaxVectorOutputs];
};

// A block of columns: the columns that the four lanes of a row hold at a time.
template <CudaElement kElement_>
struct InvariantBlock {
  using Format = WeightFormat<kElement_>;
  static constexpr CudaElement kElement = kElement_;
  // Whether a pair of mma steps is a block of 32 columns with one scale, or each step a half of it
  // with a scale of its own.
  static constexpr bool kGroups = HasCodeGroups(kElement);
  static constexpr bool kHalfScales = HasHalfScales(kElement);
  // Whether a block has more than a scale, which takes registers.
  static constexpr bool kTwoScales = kHalfScales || HasMin(kElement);
  static constexpr int kLaneColumns = std::max(8, Format::kColumns);
  static constexpr int kChunks = kLaneColumns / Format::kColumns;  // chunks of a lane
  static constexpr int kPairs = kLaneColumns / 8;                  // pairs of mma steps
  static constexpr int kColumns = 4 * kLaneColumns;
  static constexpr int kOfTile = kTileColumns / kColumns;  // blocks in a tile
  // BF16 terms that a weight is the sum of.
  static constexpr int kTerms =
      kElement == CudaElement::kF32 || kElement == CudaElement::kF16 ? 2 : 1;
  // A row of weights.
  using Row = std::conditional_t<kGroups, QuantisedRow, const uint8_t*>;
};

// The row that begins at `begin`.
template <class Block>
__device__ __forceinline__ typename Block::Row RowAt(const uint8_t* begin, int columns) {
  if constexpr (Block::kGroups) {
    return KeptRowAt<Block::kElement>(begin, columns);
  } else {
    return begin;
  }
}

// The first of the 8 columns, counted from the tile's first, that lane `t` of four multiplies in
// pair `pair` of the tile: four in each step. They are consecutive, but for kHalfScales, where the
// second four are 16 columns behind the first.
template <class Block>
__device__ __forceinline__ int PairColumn(int pair, int t) {
  if constexpr (Block::kGroups) return pair * 32 + t * (Block::kHalfScales ? 4 : 8);
  return pair / Block::kPairs * Block::kColumns + t * Block::kLaneColumns +
         pair % Block::kPairs * 8;
}
// The inverse of PairColumn: the pair, the lane and the step of the 4 columns from 4 * `four` on.
struct PairPlace {
  int pair;
  int t;
  int step;
};
template <class Block>
__device__ __forceinline__ PairPlace PlaceOf(int four) {
  if constexpr (Block::kHalfScales) return {four / 8, four % 4, four / 4 % 2};
  if constexpr (Block::kGroups) return {four / 8, four / 2 % 4, four % 2};
  const int in_block = four * 4 % Block::kColumns;
  return {four * 4 / Block::kColumns * Block::kPairs + in_block % Block::kLaneColumns / 8,
          in_block / Block::kLaneColumns, four % 2};
}

// The columns of a pair that a lane multiplies, of one row and term: those from `at` on, where
// PairColumn says.
template <class Block>
__device__ __forceinline__ uint4 LoadColumns(const uint8_t* at) {
  if constexpr (Block::kHalfScales) {
    const uint2 first = LoadInPlace8(at);
    const uint2 second = LoadInPlace8(at + 2 * 16);
    return {first.x, first.y, second.x, second.y};
  } else {
    return LoadInPlace16(at);
  }
}

// The weights of a block that one lane holds, for one output.
template <class Block, bool kGroups = Block::kGroups>
struct LaneWeights {
  typename Block::Format::Chunk chunks[Block::kChunks];

  // Loads block `block` of the row. Behind the end of a row of floats it has the row's last chunk
  // again: there the input is zeros. Quantised rows are padded. REQUIRES: its tile begins in the row.
  __device__ __forceinline__ void Load(const uint8_t* row, int columns, int block, int t) {
    const int last = static_cast<int>(static_cast<uint32_t>(columns - 1) / Block::Format::kColumns);
#pragma unroll
    for (int i = 0; i < Block::kChunks; ++i) {
      const int chunk = (block * 4 + t) * Block::kChunks + i;
      chunks[i] = Block::Format::Load(row, columns,
                                      IsQuantised(Block::kElement) ? chunk : min(chunk, last));
    }
  }

  // The terms of the lane's columns 4 * step to 4 * step + 3, two to a register.
  __device__ __forceinline__ void Quad(int step, uint2 (&terms)[Block::kTerms]) const {
    constexpr int kQuads = Block::Format::kColumns / 4;
    const auto& chunk = chunks[step / kQuads];
    if constexpr (Block::kElement == CudaElement::kBf16) {
      terms[0] = {WordOf(chunk, 2 * (step % kQuads)), WordOf(chunk, 2 * (step % kQuads) + 1)};
      return;
    }
    const float4 x = Block::Format::Quad(chunk, step % kQuads);
    terms[0] = {PackBf16(x.x, x.y), PackBf16(x.z, x.w)};
    if constexpr (Block::kTerms == 2) {
      const auto lost = [](float value, uint32_t rounded) {
        return value - std::bit_cast<float>(rounded);
      };
      terms[1] = {PackBf16(lost(x.x, terms[0].x << 16), lost(x.y, terms[0].x & 0xffff0000u)),
                  PackBf16(lost(x.z, terms[0].y << 16), lost(x.w, terms[0].y & 0xffff0000u))};
    }
  }
};

// The same of codes in groups. A block is a tile.
template <class Block>
struct LaneWeights<Block, true> {
  static_assert(Block::kOfTile == 1);
  typename Block::Format::Words words;
  typename Block::Format::Scales scales;

  __device__ __forceinline__ void Load(const QuantisedRow& row, int /*columns*/, int block, int t) {
    words = Block::Format::LoadWords(row, block * 4 + t);
    scales = Block::Format::LoadScales(row, block);
  }
};

// The A operands of the two mma steps of a pair.
template <class Block, bool kGroups = Block::kGroups>
struct PairWeights {
  uint32_t a[2][Block::kTerms][4];

  // `weights` [2]: of output g and of output g + 8. `pair` is a pair of the block.
  __device__ __forceinline__ PairWeights(const LaneWeights<Block> (&weights)[2], int pair) {
    Take(weights, pair);
  }
  // `chunks` [2]: each output's chunks of Q8_0 of a tile, in shared memory (WeightRing::Tile). `pair` is
  // a pair of the tile.
  __device__ __forceinline__ PairWeights(const QuantisedRow (&chunks)[2], int pair) {
    static_assert(Block::kElement == CudaElement::kQ8_0);
    LaneWeights<Block> weights[2];
#pragma unroll
    for (int output = 0; output < 2; ++output) {
      const QuantisedRow& chunk = chunks[output];
      const uint2 codes =
          LoadAt<uint2, PlaneIn::kShared>(pair < 2 ? chunk.codes : chunk.high, pair % 2);
      weights[output].chunks[0] = {
          {codes.x, codes.y, 0, 0},
          LoadAt<uint16_t, PlaneIn::kShared>(chunk.parts, pair / 2 * 2 + threadIdx.x % 4 / 2)};
    }
    Take(weights, 0);
  }
  __device__ __forceinline__ void Take(const LaneWeights<Block> (&weights)[2], int pair) {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      uint2 upper[Block::kTerms];
      uint2 lower[Block::kTerms];
      weights[0].Quad(2 * pair + step, upper);
      weights[1].Quad(2 * pair + step, lower);
#pragma unroll
      for (int term = 0; term < Block::kTerms; ++term) {
        a[step][term][0] = upper[term].x;
        a[step][term][1] = lower[term].x;
        a[step][term][2] = upper[term].y;
        a[step][term][3] = lower[term].y;
      }
    }
  }

  // sums += these weights times the same columns of eight rows. `high` and, if there are two terms,
  // `low` are the first and second term of this lane's row.
  __device__ __forceinline__ void Multiply(const uint4& high, const uint4& low, bool two_terms,
                                           float (&sums)[4]) const {
    const uint2 highs[2] = {{high.x, high.y}, {high.z, high.w}};
    const uint2 lows[2] = {{low.x, low.y}, {low.z, low.w}};
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int term = 0; term < Block::kTerms; ++term) {
        MultiplyBf16(sums, a[step][term], {highs[step].x, highs[step].y});
      }
      if (two_terms) MultiplyBf16(sums, a[step][0], {lows[step].x, lows[step].y});
    }
  }
};

// The same of codes in groups. The pair's columns are a block: its sum, or that of each half, is
// scaled, then added.
template <class Block>
struct PairWeights<Block, true> {
  using Format = typename Block::Format;
  static constexpr bool kHasMin = HasMin(Block::kElement);
  static constexpr int kScales = Block::kHalfScales ? 2 : 1;
  uint32_t a[2][4];               // the codes; with a min, Format::kAdded more
  BlockScale blocks[2][kScales];  // the scales of outputs g and g + 8; `min` is for the input's sum

  __device__ __forceinline__ PairWeights(const LaneWeights<Block> (&weights)[2], int pair) {
    Take([&](int output) { return Format::WordsOf(weights[output].words, pair); },
         [&](int output, int scale) {
           return Format::BlockOf(weights[output].scales, pair, scale);
         });
  }
  // `chunks` [2]: each output's chunk, in shared memory (WeightRing::Tile).
  __device__ __forceinline__ PairWeights(const QuantisedRow (&chunks)[2], int pair) {
    const typename Format::Part parts[2] = {
        Format::template LoadPart<PlaneIn::kShared>(chunks[0], pair),
        Format::template LoadPart<PlaneIn::kShared>(chunks[1], pair)};
    Take([&](int output) { return Format::LoadBlock(chunks[output], pair); },
         [&](int output, int scale) { return Format::BlockOf(parts[output], scale); });
  }
  // Makes the operands of the codes words(output) and the scales scale(output, half).
  template <class WordsOf, class ScaleOf>
  __device__ __forceinline__ void Take(const WordsOf& words, const ScaleOf& scale) {
#pragma unroll
    for (int output = 0; output < 2; ++output) {
      uint32_t codes[4];
      Format::Codes(words(output), codes);
      // Without a min, what is added to the codes goes first. With one, the min makes up for it:
      // scale * sum(code * x) + min * sum(x), from the sum of (code + kAdded) * x.
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (Format::kAdded > 0 && !kHasMin) {
          codes[i] = LessAdded<Format::kAdded>(codes[i]);
        }
        a[i / 2][i % 2 * 2 + output] = codes[i];
      }
#pragma unroll
      for (int half = 0; half < kScales; ++half) {
        blocks[output][half] = scale(output, half);
      }
      static_assert(!kHasMin || !Block::kHalfScales);
      if constexpr (kHasMin) {
        BlockScale& block = blocks[output][0];
        block.min = __fmaf_rn(block.scale, -static_cast<float>(Format::kAdded), block.min);
      }
    }
  }

  // As above.
  __device__ __forceinline__ void Multiply(const uint4& high, const uint4& low, bool two_terms,
                                           float (&sums)[4]) const {
    const uint2 highs[2] = {{high.x, high.y}, {high.z, high.w}};
    const uint2 lows[2] = {{low.x, low.y}, {low.z, low.w}};
    constexpr uint32_t kOnes[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
    float products[4] = {};
    float inputs[4] = {};  // the sums of the input alone, the same for every output
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      MultiplyBf16(products, a[step], {highs[step].x, highs[step].y});
      if (two_terms) MultiplyBf16(products, a[step], {lows[step].x, lows[step].y});
      if constexpr (kHasMin) {
        MultiplyBf16(inputs, kOnes, {highs[step].x, highs[step].y});
        if (two_terms) MultiplyBf16(inputs, kOnes, {lows[step].x, lows[step].y});
      }
      if (Block::kHalfScales || step == 1) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums[i] = __fmaf_rn(blocks[i / 2][step % kScales].scale, products[i], sums[i]);
          products[i] = 0;
        }
      }
    }
    if constexpr (kHasMin) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] = __fmaf_rn(blocks[i / 2][0].min, inputs[i], sums[i]);
    }
  }
};

// The matrix that a unit of outputs belongs to.
__device__ __forceinline__ const InvariantArgs::Matrix& MatrixOfUnit(const InvariantArgs& args,
                                                                     int unit) {
  int matrix = 0;
  while (matrix + 1 < args.matrix_count && unit >= args.matrices[matrix + 1].first_unit) ++matrix;
  return args.matrices[matrix];
}

// The weights' row of `output`. Outputs behind the last one get the last row; none is stored.
__device__ __forceinline__ const uint8_t* WeightRow(const InvariantArgs& args,
                                                    const InvariantArgs::Matrix& matrix,
                                                    int output) {
  return matrix.weight + min(output, matrix.rows - 1) * args.row_bytes;
}

__device__ __forceinline__ void StoreOutput(const InvariantArgs& args,
                                            const InvariantArgs::Matrix& matrix, int row,
                                            int output, float sum) {
  if (row >= args.rows || output >= matrix.rows) return;
  float* const out = matrix.out + static_cast<int64_t>(row) * matrix.rows + output;
  *out = OutputOf(sum, matrix.accumulate, matrix.scale, *out);
}

}  // namespace baton
