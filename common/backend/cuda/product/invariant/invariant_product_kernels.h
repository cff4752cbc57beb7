// The kernels of invariant_product.h, for any weight format. A unit is the range of outputs that a
// thread block has. The block's index says which unit and rows it has, rows first, so that blocks
// that run at the same time read the same weights.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/product/invariant/invariant_product_lane.h"
#include "ptx.h"

namespace baton {

inline constexpr int kInvariantThreads = 256;
inline constexpr int kInvariantWarps = kInvariantThreads / 32;

// --- Few rows: a block has 16 outputs and 8 * kRowTiles rows, and each warp a part of the columns.

inline constexpr int kPartOutputs = 16;

// sums += the weights of a pair of mma steps times the rows. `x` points to this lane's columns of
// each row's first term. They are read from global memory, because other blocks on the
// multiprocessor read the same ones.
template <class Block, int kTerms, int kRowTiles>
__device__ __forceinline__ void MultiplyRows(const uint8_t* const (&x)[kRowTiles], int offset,
                                             int64_t term_bytes, const PairWeights<Block>& weights,
                                             float (&sums)[kRowTiles][4]) {
  uint4 high[kRowTiles];
  uint4 low[kRowTiles] = {};
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    const uint8_t* const at = x[n] + offset;
    high[n] = LoadColumns<Block>(at);
    if constexpr (kTerms == 2) low[n] = LoadColumns<Block>(at + term_bytes);
  }
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) weights.Multiply(high[n], low[n], kTerms == 2, sums[n]);
}

// sums += the weights of blocks [block, end) of output g and of output g + 8 times the rows. `x`
// points to this lane's columns of `block` in each row's first term, as above. kDepth: blocks that a
// warp has loaded ahead. `wait` is called when the first loads of weights are under way, which do not
// depend on the kernel before, and before `x` is read.
template <class Block, int kTerms, int kDepth, int kRowTiles, class Wait>
__device__ __forceinline__ void MultiplyPart(const typename Block::Row (&rows)[2], int columns,
                                             int block, int end, const uint8_t* (&x)[kRowTiles],
                                             int64_t term_bytes, const Wait& wait,
                                             float (&sums)[kRowTiles][4]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  LaneWeights<Block> weights[kDepth][2];
  const auto load = [&](int next, LaneWeights<Block>(&to)[2]) {
    if (next >= end) return;
    to[0].Load(rows[0], columns, next, t);
    to[1].Load(rows[1], columns, next, t);
  };
#pragma unroll
  for (int d = 0; d < kDepth; ++d) load(block + d, weights[d]);
  wait();
  for (; block < end; block += kDepth) {
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      if (block + d < end) {
#pragma unroll
        for (int pair = 0; pair < Block::kPairs; ++pair) {
          const int offset = 2 * (d * Block::kColumns + PairColumn<Block>(pair, 0));
          MultiplyRows<Block, kTerms>(x, offset, term_bytes, PairWeights<Block>(weights[d], pair),
                                      sums);
        }
      }
      load(block + d + kDepth, weights[d]);
    }
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) x[n] += 2 * kDepth * Block::kColumns;
  }
}

// Where sum `i` of a warp's sums [row][output] lies in shared memory. Two rows are as long as all
// banks together, and a store of a warp has the same eight outputs of one row in each of four twos:
// each two has its outputs in another order of eights.
// tests/planted_bugs: kernel_parts_in_the_same_banks
__device__ __forceinline__ int PlaceOfSum(int i) { return i ^ i / 32 % 4 * 8; }

// Puts a lane's sums among those of its warp.
template <int kRowTiles>
__device__ __forceinline__ void KeepSums(const float (&sums)[kRowTiles][4], float* warp_sums) {
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = n * 8 + t * 2 + i % 2;
      warp_sums[PlaceOfSum(row * kPartOutputs + group + i / 2 * 8)] = sums[n][i];
    }
  }
}

// The sum of the parts' sums `i`, added in ascending order.
template <int kRows>
__device__ __forceinline__ float SumOfParts(const float* sums, int parts, int i) {
  constexpr int kSums = kRows * kPartOutputs;
  const float* const at = sums + PlaceOfSum(i);
  float sum = at[0];
  for (int part = 1; part < parts; ++part) sum += at[part * kSums];
  return sum;
}

// Adds the sums of the parts and stores the results.
template <int kRows>
__device__ void StoreParts(const InvariantArgs& args, const InvariantArgs::Matrix& matrix,
                           int first_output, int first_row, const float* sums) {
  constexpr int kSums = kRows * kPartOutputs;
  const int parts = (args.tiles + args.part_tiles - 1) / args.part_tiles;
  for (int i = static_cast<int>(threadIdx.x); i < kSums; i += kInvariantThreads) {
    StoreOutput(args, matrix, first_row + i / kPartOutputs, first_output + i % kPartOutputs,
                SumOfParts<kRows>(sums, parts, i));
  }
}

// kOccupancy: thread blocks on a multiprocessor. kTerms: those of the input.
template <class Block, int kRowTiles, int kDepth, int kOccupancy, int kTerms>
static __global__ void __launch_bounds__(kInvariantThreads, kOccupancy)
    InvariantPartsKernel(const __grid_constant__ InvariantArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int unit = static_cast<int>(blockIdx.x) / args.row_tiles;
  const int first_row = static_cast<int>(blockIdx.x) % args.row_tiles * kRowTiles * 8;
  const InvariantArgs::Matrix& matrix = MatrixOfUnit(args, unit);
  const int first_output = (unit - matrix.first_unit) * kPartOutputs;

  LetNextKernelStart();
  const typename Block::Row rows[2] = {
      RowAt<Block>(WeightRow(args, matrix, first_output + group), args.columns),
      RowAt<Block>(WeightRow(args, matrix, first_output + group + 8), args.columns)};
  const int block = warp * args.part_tiles * Block::kOfTile;
  const int end = min(args.tiles, (warp + 1) * args.part_tiles) * Block::kOfTile;
  // Rows behind the last one are the last one; none of their sums is stored.
  const uint8_t* x[kRowTiles];
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    x[n] = args.terms + min(first_row + n * 8 + group, args.rows - 1) * args.term_row_bytes +
           2 * (block * Block::kColumns + PairColumn<Block>(0, t));
  }
  float sums[kRowTiles][4] = {};
  MultiplyPart<Block, kTerms, kDepth>(rows, args.columns, block, end, x, args.term_bytes,
                                      WaitForPreviousKernel, sums);
  auto* const all = reinterpret_cast<float*>(shared_memory);
  KeepSums(sums, all + warp * kRowTiles * 8 * kPartOutputs);
  __syncthreads();
  StoreParts<kRowTiles * 8>(args, matrix, first_output, first_row, all);
}

// --- Many rows: a block has a tile of 128 outputs and 32 to 128 rows, and each of its warps 16
// --- outputs, so that only one warp reads and widens a weight. The input's rows come into shared
// --- memory tile by tile, [buffer][term][pair][row][lane of four], 16 bytes each. So the eight
// --- lanes that are served together find their bytes side by side. Behind a pair are 64 bytes free:
// --- eight lanes that copy a row have it in two pairs, which must not share banks.

inline constexpr int kTileOutputs = 128;

// The rows of a tile in shared memory.
template <class Block_, int kTerms_, int kRows_>
struct TileRows {
  using Block = Block_;
  static constexpr int kTerms = kTerms_;
  static constexpr int kRows = kRows_;
  static constexpr int kRowTiles = kRows / 8;
  static constexpr int kPairBytes = kRows * 64 + 64;
  static constexpr int kTermBytes = kTileColumns / 32 * kPairBytes;
  static constexpr int kBufferBytes = kTerms * kTermBytes;
  static constexpr int kSharedBytes = 2 * kBufferBytes;
};
// A lane has two sums for each output and row of its own, which leave too few registers for 128 rows where
// weights or input take many.
template <class Block, int kTerms>
using TileShape = TileRows<Block, kTerms,
                           kTerms == 1 && (Block::kElement == CudaElement::kBf16 ||
                                           Block::kElement == CudaElement::kF16)
                               ? 128
                               : 64>;

// The rows' way into shared memory. A thread always has the same eight columns of a tile, of every
// sixteenth row if there are 256 threads.
template <class Shape, int kThreads = kInvariantThreads>
class RowCopies {
  using Block = typename Shape::Block;
  static constexpr int kTerms = Shape::kTerms;
  static constexpr int kEights = kTileColumns / 8;
  static constexpr int kRowStep = kThreads / kEights;
  static constexpr int kTurns = Shape::kRows / kRowStep;

 public:
  // `first_row` is the tile's first row.
  __device__ __forceinline__ RowCopies(const InvariantArgs& args, int first_row) {
    const int row = static_cast<int>(threadIdx.x) / kEights;
    const int eight = static_cast<int>(threadIdx.x) % kEights;
    const PairPlace place = PlaceOf<Block>(2 * eight);
    to_ = place.pair * Shape::kPairBytes + (row * 4 + place.t) * 16 + place.step * 8;
    from_ = AsItIs(args.terms + (first_row + row) * args.term_row_bytes + eight * 16);
    rows_ = args.rows - first_row - row;
  }

  // Begins to copy a column tile of all terms, and ends a group of copies. Rows behind the last one
  // become zeros, and nothing is read at their addresses.
  __device__ __forceinline__ void Copy(const InvariantArgs& args, int tile, uint8_t* buffer) const {
    uint8_t* const to = buffer + to_;
    // Which rows there are is asked anew, if there are too few predicates to keep it.
    const int rows = kTurns > 4 ? AsItIs(rows_) : rows_;
#pragma unroll
    for (int term = 0; term < kTerms; ++term) {
      const uint8_t* from =
          from_ + term * args.term_bytes + static_cast<int64_t>(tile) * (kEights * 16);
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const bool valid = i * kRowStep < rows;
        uint8_t* const at = to + term * Shape::kTermBytes + i * kRowStep * 64;
        if constexpr (Block::kHalfScales) {
          // The second four columns are the next lane's, of the same step.
          CopyAsync<8>(at, from, valid);
          CopyAsync<8>(at + 16, from + 8, valid);
        } else {
          CopyAsync16(at, from, valid ? 16 : 0);
        }
        from += kRowStep * args.term_row_bytes;
      }
    }
    CommitCopies();
  }

 private:
  const uint8_t* from_;  // in the first tile
  int to_;               // in a buffer
  int rows_;             // from this thread's first row to the last one
};

// The sums of a warp's 16 outputs for all rows of the tile.
template <int kRowTiles>
using TileSums = float[kRowTiles][4];

// sums += the products of a pair of mma steps. `x` points to this lane's columns in the first row.
template <class Block, int kTerms, int kRowTiles>
__device__ __forceinline__ void MultiplyShared(const uint8_t* x, const PairWeights<Block>& weights,
                                               TileSums<kRowTiles>& sums) {
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    const uint4 high = *reinterpret_cast<const uint4*>(x + n * 8 * 64);
    uint4 low = {0, 0, 0, 0};
    if constexpr (kTerms == 2) {
      low = *reinterpret_cast<const uint4*>(x + TileShape<Block, kTerms>::kTermBytes + n * 8 * 64);
    }
    weights.Multiply(high, low, kTerms == 2, sums[n]);
  }
}

// Ends a part: total += sums, and sums = 0.
template <int kRowTiles>
__device__ __forceinline__ void EndPart(bool first, TileSums<kRowTiles>& sums,
                                        TileSums<kRowTiles>& total) {
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& sum = sums[n][i];
      float& all = total[n][i];
      all = first ? sum : all + sum;
      sum = 0;
    }
  }
}

// The same where the totals lie in shared memory, [kRowTiles][threads of the block], from this
// thread's on.
template <int kRowTiles>
__device__ __forceinline__ void KeepPart(bool first, TileSums<kRowTiles>& sums, float4* totals) {
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    float(&sum)[4] = sums[n];
    float4& total = totals[n * kInvariantThreads];
    if (!first) {
      const float4 before = total;
      sum[0] = before.x + sum[0];
      sum[1] = before.y + sum[1];
      sum[2] = before.z + sum[2];
      sum[3] = before.w + sum[3];
    }
    total = {sum[0], sum[1], sum[2], sum[3]};
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = 0;
  }
}

template <class Block, int kTerms>
static __global__ void __launch_bounds__(kInvariantThreads, 1)
    InvariantTileKernel(const __grid_constant__ InvariantArgs args) {
  using Shape = TileShape<Block, kTerms>;
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int unit = static_cast<int>(blockIdx.x) / args.row_tiles;
  const int first_row = static_cast<int>(blockIdx.x) % args.row_tiles * Shape::kRows;
  const InvariantArgs::Matrix& matrix = MatrixOfUnit(args, unit);
  const int first_output = (unit - matrix.first_unit) * kTileOutputs + warp * 16;

  LetNextKernelStart();
  const typename Block::Row rows[2] = {
      RowAt<Block>(WeightRow(args, matrix, first_output + group), args.columns),
      RowAt<Block>(WeightRow(args, matrix, first_output + group + 8), args.columns)};
  LaneWeights<Block> weights[2];
  const auto load = [&](int block) {
    if (block >= args.tiles * Block::kOfTile) return;
    weights[0].Load(rows[0], args.columns, block, t);
    weights[1].Load(rows[1], args.columns, block, t);
  };
  load(0);
  const RowCopies<Shape> input(args, first_row);
  WaitForPreviousKernel();
  input.Copy(args, 0, shared_memory);
  TileSums<Shape::kRowTiles> sums = {};
  TileSums<Shape::kRowTiles> total = {};
  int buffer = 0;
  int end_part = args.part_tiles;
  for (int tile = 0; tile < args.tiles; ++tile) {
    WaitForCopies<0>();
    __syncthreads();  // all warps have copied, and none reads the other buffer any more
    const uint8_t* const x = shared_memory + buffer + group * 64 + t * 16;
    buffer = Shape::kBufferBytes - buffer;
    if (tile + 1 < args.tiles) input.Copy(args, tile + 1, shared_memory + buffer);
#pragma unroll
    for (int block = 0; block < Block::kOfTile; ++block) {
#pragma unroll
      for (int pair = 0; pair < Block::kPairs; ++pair) {
        const PairWeights<Block> operands(weights, pair);
        // The next block is loaded while the last pair of this one is multiplied. Loaded before the
        // first pair it took 10 % longer on an H100: the scales of this block, whose first use the
        // compiler puts behind the new loads, waited for those too.
        if (pair == Block::kPairs - 1) load(tile * Block::kOfTile + block + 1);
        MultiplyShared<Block, kTerms, Shape::kRowTiles>(
            x + (block * Block::kPairs + pair) * Shape::kPairBytes, operands, sums);
      }
    }
    if (tile + 1 == end_part || tile + 1 == args.tiles) {
      EndPart<Shape::kRowTiles>(tile < args.part_tiles, sums, total);
      end_part += args.part_tiles;
    }
  }
#pragma unroll
  for (int n = 0; n < Shape::kRowTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      StoreOutput(args, matrix, first_row + n * 8 + t * 2 + i % 2, first_output + group + i / 2 * 8,
                  total[n][i]);
    }
  }
}

}  // namespace baton
