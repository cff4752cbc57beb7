// The kernel of vector_product.h, for any weight format and number of rows.
//
// A thread block holds the activations in shared memory, whole rows or a tile of columns at a time.
// Its warps form teams. In each round a team sums a unit (a few rows of one weight); the units of a
// launch are dealt out block after block. In a sweep over the unit's rows each lane of the team
// reads one chunk of each row. A thread holds kSweeps sweeps, which are a step. As soon as one
// sweep is multiplied, its place is taken by the loads of the same sweep of the next step, or of
// the next unit at the end of a unit.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/product/product_output.h"
#include "common/backend/cuda/product/vector/vector_product_input.h"
#include "common/backend/cuda/product/vector/vector_product_tile.h"
#include "ptx.h"

namespace baton {

// A unit: kUnitRows rows of a matrix, fewer at its end.
struct VectorUnit {
  int matrix = 0;
  int first_row = 0;
  bool valid = false;
};

template <class Tile>
__device__ __forceinline__ VectorUnit UnitOf(const VectorArgs& args, int round) {
  const int teams = kVectorWarps / args.team_warps;
  const int team = static_cast<int>(threadIdx.x) / 32 / args.team_warps;
  const int64_t index =
      (static_cast<int64_t>(round) * teams + team) * gridDim.x + static_cast<int>(blockIdx.x);
  VectorUnit unit;
  unit.valid = index < args.units;
  if (!unit.valid) return unit;
  while (unit.matrix + 1 < args.matrix_count &&
         index >= args.matrices[unit.matrix + 1].first_unit) {
    ++unit.matrix;
  }
  unit.first_row =
      (static_cast<int>(index) - args.matrices[unit.matrix].first_unit) * Tile::kUnitRows;
  return unit;
}

// One lane's reads of a unit's rows.
template <class Tile>
class VectorReader {
 public:
  using Chunk = typename Tile::Format::Chunk;

  // Turns to the unit of round `round`.
  __device__ __forceinline__ void Open(const VectorArgs& args, int round) {
    const VectorUnit unit = UnitOf<Tile>(args, round);
    valid_ = unit.valid;
    const VectorArgs::Matrix& matrix = args.matrices[unit.matrix];
#pragma unroll
    for (int row = 0; row < Tile::kUnitRows; ++row) {
      const int index = min(unit.first_row + row, matrix.rows - 1);
      rows_[row] = matrix.weight + index * args.row_bytes;
    }
  }

  // Loads chunk `chunk` of each row; nothing behind the row's end or behind the last unit.
  __device__ __forceinline__ void Read(const VectorArgs& args, int chunk,
                                       Chunk (&chunks)[Tile::kUnitRows]) const {
    if (!valid_ || chunk >= args.chunks) return;
#pragma unroll
    for (int row = 0; row < Tile::kUnitRows; ++row) {
      chunks[row] = Tile::Format::Load(rows_[row], args.columns, chunk);
    }
  }

  // Brings the rows from chunk `chunk` on into the L2 cache, as far as they may fill it before
  // anyone reads them. They come while the previous kernel ends and the activations are prepared.
  __device__ __forceinline__ void Prefetch(const VectorArgs& args, int chunk) const {
    // 17 MB for a whole H200 are a third of its cache, and 4 us at its speed.
    constexpr int kMostChunks = 4096 / 16;
    const int count = min(args.chunks - chunk, kMostChunks);
    if (!valid_ || count <= 0) return;
#pragma unroll
    for (int row = 0; row < Tile::kUnitRows; ++row)
      PrefetchToL2(rows_[row] + 16 * chunk, 16 * count);
  }

  __device__ bool valid() const { return valid_; }

 private:
  bool valid_ = false;
  const uint8_t* rows_[Tile::kUnitRows];
};

// sums += a chunk of each row times the activations. `x` is the input's first row in shared memory,
// `place` the chunk's index in that row.
template <class Tile>
__device__ __forceinline__ void MultiplyChunks(
    const VectorArgs& args, const typename Tile::Format::Chunk (&chunks)[Tile::kUnitRows],
    const float4* x, int place, float (&sums)[Tile::kUnitRows][Tile::kRows]) {
  const int row_quads = args.tile_chunks * Tile::kQuads;
#pragma unroll
  for (int quad = 0; quad < Tile::kQuads; ++quad) {
    float4 weights[Tile::kUnitRows];
#pragma unroll
    for (int row = 0; row < Tile::kUnitRows; ++row) {
      weights[row] = Tile::Format::Quad(chunks[row], quad);
    }
    const float4* values = x + SharedQuad<Tile>(place, quad);
#pragma unroll
    for (int input = 0; input < Tile::kRows; ++input) {
      const float4 value = values[input * row_quads];
#pragma unroll
      for (int row = 0; row < Tile::kUnitRows; ++row) {
        sums[row][input] = FmaQuad(weights[row], value, sums[row][input]);
      }
    }
  }
}

// Sum `i` of a unit is that of its row i / kRows and of row i % kRows of the input. Lane i of the
// team's first warp stores it.
template <class Tile>
__device__ __forceinline__ bool StoresSum(const VectorArgs& args, const VectorUnit& unit) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return lane < Tile::kUnitSums && warp % args.team_warps == 0 && unit.valid &&
         unit.first_row + lane / Tile::kRows < args.matrices[unit.matrix].rows;
}

template <class Tile>
__device__ __forceinline__ float* SumAt(const VectorArgs& args, const VectorUnit& unit, int i) {
  const VectorArgs::Matrix& matrix = args.matrices[unit.matrix];
  return matrix.out + static_cast<int64_t>(i % Tile::kRows) * matrix.rows + unit.first_row +
         i / Tile::kRows;
}

// Where the result that this thread stores in the round is added to what is there; null if there
// is none, or none to add to.
template <class Tile>
__device__ __forceinline__ const float* AddedTo(const VectorArgs& args, int round) {
  if (!args.accumulates) return nullptr;
  const VectorUnit unit = UnitOf<Tile>(args, round);
  if (!StoresSum<Tile>(args, unit) || !args.matrices[unit.matrix].accumulate) return nullptr;
  return SumAt<Tile>(args, unit, static_cast<int>(threadIdx.x) % 32);
}

// Begins the copy early, so that no thread waits for it at the end of the round.
template <class Tile>
__device__ __forceinline__ void BringBefore(const float* added_to,
                                            const VectorShared<Tile>& shared) {
  if (added_to == nullptr) return;
  const int thread = static_cast<int>(threadIdx.x);
  CopyAsync<4>(shared.before + thread / 32 * Tile::kUnitSums + thread % 32, added_to,
               /*valid=*/true);
  CommitCopies();
}

// Adds the sums of the lanes, then of the team's warps, and stores the unit's results.
template <class Tile>
__device__ void FinishUnit(const VectorArgs& args, int round, const VectorShared<Tile>& shared,
                           const float (&sums)[Tile::kUnitRows][Tile::kRows]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const VectorUnit unit = UnitOf<Tile>(args, round);
  // Two buffers: the next round may write one while the other is still read.
  // tests/planted_bugs: kernel_team_sums_in_one_buffer
  float* const buffer = shared.team_sums + round % 2 * kVectorWarps * Tile::kUnitSums;
  float own = 0;  // sum `lane` of this warp
#pragma unroll
  for (int i = 0; i < Tile::kUnitSums; ++i) {
    if (!unit.valid) break;
    const float sum = WarpSum(sums[i / Tile::kRows][i % Tile::kRows]);
    if (lane == i) own = sum;
  }
  if (args.team_warps > 1) {
    if (unit.valid && lane < Tile::kUnitSums) buffer[warp * Tile::kUnitSums + lane] = own;
    __syncthreads();
  }
  if (!StoresSum<Tile>(args, unit)) return;
  for (int mate = 1; mate < args.team_warps; ++mate) {
    own += buffer[(warp + mate) * Tile::kUnitSums + lane];
  }
  WaitForCopies<0>();
  const VectorArgs::Matrix& matrix = args.matrices[unit.matrix];
  *SumAt<Tile>(args, unit, lane) =
      OutputOf(own, matrix.accumulate, matrix.scale, shared.before[warp * Tile::kUnitSums + lane]);
}

template <class Tile>
static __global__ void __launch_bounds__(kVectorThreads, Tile::kBlocks)
    VectorProductKernel(const __grid_constant__ VectorArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const VectorShared<Tile> shared(shared_memory, args);
  const int lanes = 32 * args.team_warps;
  const int lane = static_cast<int>(threadIdx.x) % lanes;

  LetNextKernelStart();
  // The weights do not depend on the kernel before, so they are loaded before the wait for it.
  VectorReader<Tile> reader;
  reader.Open(args, 0);
  typename Tile::Format::Chunk chunks[Tile::kSweeps][Tile::kUnitRows] = {};
#pragma unroll
  for (int sweep = 0; sweep < Tile::kSweeps; ++sweep) {
    reader.Read(args, sweep * lanes + lane, chunks[sweep]);
  }
  if (lane == 0) reader.Prefetch(args, args.step_chunks);
  if (NormalisesWholeRow<Tile>(args)) PutGain(args, shared);
  const float* const added_to = AddedTo<Tile>(args, 0);
  WaitForPreviousKernel();
  BringBefore(added_to, shared);
  if (NormalisesWholeRow<Tile>(args)) {
    NormaliseWholeRow(args, shared);
  } else if (args.kind == VectorInput::Kind::kNorm) {
    ComputeNormScales(args, shared);
  }
  for (int round = 0; round < args.rounds; ++round) {
    if (round > 0) BringBefore(AddedTo<Tile>(args, round), shared);
    float sums[Tile::kUnitRows][Tile::kRows] = {};
    int place = 0;  // index in the tile of the step's first chunk
    for (int step = 0; step < args.row_step_chunks; step += args.step_chunks) {
      // Where all columns fit, they are brought once for all rounds.
      if (place == 0 && (round == 0 || args.tile_step_chunks < args.row_step_chunks)) {
        if (round > 0 || step > 0) __syncthreads();  // all threads have read the previous tile
        if (!NormalisesWholeRow<Tile>(args)) FillTile(args, step, shared);
        __syncthreads();
      }
      if (reader.valid()) {
        int next = step + args.step_chunks;
        if (next == args.row_step_chunks) {
          next = 0;
          reader.Open(args, round + 1);
        }
#pragma unroll
        for (int sweep = 0; sweep < Tile::kSweeps; ++sweep) {
          const int offset = sweep * lanes + lane;
          if (step + offset < args.chunks) {
            MultiplyChunks<Tile>(args, chunks[sweep], shared.activations, place + offset, sums);
          }
          reader.Read(args, next + offset, chunks[sweep]);
        }
      }
      place += args.step_chunks;
      if (place == args.tile_step_chunks) place = 0;
    }
    FinishUnit<Tile>(args, round, shared, sums);
  }
}

}  // namespace baton
