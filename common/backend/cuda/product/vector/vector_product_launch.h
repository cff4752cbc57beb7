// From the description of a vector product to the launch of its kernel.
#pragma once

#include <algorithm>
#include <span>

#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/product/vector/vector_product.h"
#include "common/backend/cuda/product/vector/vector_product_kernel.h"
#include "common/backend/cuda/weight/weight_layout.h"

namespace baton {

inline int CeilDiv(int64_t value, int divisor) {
  return static_cast<int>((value + divisor - 1) / divisor);
}

// Calls visit(tile) with the tile for `rows` rows of the input. Chunks in flight take 64 registers
// where two blocks share a multiprocessor, and 128 where the sums of several rows need them.
template <CudaElement kElement, class Visit>
void WithVectorTile(int rows, const Visit& visit) {
  if (rows == 1) visit(VectorTile<kElement, 1, 1, 5, 2>());
  if (rows == 2) visit(VectorTile<kElement, 2, 2, 3, 1>());
  if (rows == 3) visit(VectorTile<kElement, 3, 2, 3, 1>());
  if constexpr (MaxVectorRows(kElement) == 4) {
    if (rows == 4) visit(VectorTile<kElement, 4, 2, 3, 1>());
  }
}

// The most thread blocks of a launch.
template <class Tile>
int MostVectorBlocks(const VectorArgs& args, const DeviceLimits& limits) {
  return std::min(args.units, limits.multiprocessors * Tile::kBlocks);
}

// Thread blocks of a launch. Where the loads of a thread at the beginning are all that it ever
// reads, no more blocks than have a unit for each of their teams: the next kernel's blocks, which
// begin in the room that is left, read their weights while this one computes.
template <class Tile>
int VectorBlocks(const VectorArgs& args, const DeviceLimits& limits) {
  const int most = MostVectorBlocks<Tile>(args, limits);
  if (args.rounds > 1 || args.row_step_chunks > args.step_chunks) return most;
  return std::min(most, CeilDiv(args.units, kVectorWarps / args.team_warps));
}

template <class Tile>
VectorArgs ArgsFor(const VectorInput& input, std::span<const VectorOutput> outputs,
                   const DeviceLimits& limits) {
  VectorArgs args = {};
  args.kind = input.kind;
  args.function = input.function;
  args.in = input.in.data;
  args.other = input.other;
  args.epsilon = input.epsilon;
  args.columns = input.in.columns;
  int64_t all_rows = 0;
  for (const VectorOutput& output : outputs) {
    const CudaMatrix& weight = output.weight;
    if (weight.element != Tile::kElement) continue;
    args.matrices[args.matrix_count++] = {static_cast<const uint8_t*>(weight.data),
                                          output.out.data,
                                          weight.rows,
                                          args.units,
                                          output.accumulate,
                                          output.scale};
    args.units += CeilDiv(weight.rows, Tile::kUnitRows);
    args.accumulates = args.accumulates || output.accumulate;
    all_rows += weight.rows;
  }
  args.row_bytes = static_cast<int64_t>(CudaRowBytes(Tile::kElement, args.columns));
  if (args.matrix_count == 0) return args;
  args.team_warps = VectorTeamWarps(Tile::kElement, all_rows, args.columns);
  args.rounds =
      CeilDiv(args.units, MostVectorBlocks<Tile>(args, limits) * (kVectorWarps / args.team_warps));
  args.chunks = CeilDiv(args.columns, Tile::Format::kColumns);
  const int lanes = 32 * args.team_warps;
  const int sweeps = CeilDiv(args.chunks, lanes);
  const int steps = CeilDiv(sweeps, Tile::kSweeps);
  args.step_chunks = Tile::kSweeps * lanes;
  args.row_step_chunks = steps * args.step_chunks;

  // A tile has as many columns as fit into the shared memory of a multiprocessor's blocks. A block
  // may use a little less than its share: the device keeps 1 KB of each for itself.
  const size_t room =
      limits.shared_bytes / Tile::kBlocks - 1024 - VectorShared<Tile>::kSumFloats * sizeof(float);
  const size_t step_bytes = static_cast<size_t>(Tile::kRows) *
                            static_cast<size_t>(args.step_chunks) * Tile::kQuads * sizeof(float4);
  const int tile_steps = std::clamp(static_cast<int>(room / step_bytes), 1, steps);
  args.tile_step_chunks = tile_steps * args.step_chunks;
  args.tile_chunks = std::min(tile_steps * Tile::kSweeps, sweeps) * lanes;
  args.whole_norm = args.kind == VectorInput::Kind::kNorm && tile_steps == steps;
  return args;
}

// Multiplies with those outputs' weights that are of this type.
template <CudaElement kElement>
void LaunchElement(const VectorInput& input, std::span<const VectorOutput> outputs,
                   const DeviceLimits& limits, cudaStream_t stream) {
  WithVectorTile<kElement>(input.in.rows, [&](auto tile) {
    using Tile = decltype(tile);
    const VectorArgs args = ArgsFor<Tile>(input, outputs, limits);
    if (args.matrix_count == 0) return;
    Launch(VectorProductKernel<Tile>,
           {.grid = dim3(static_cast<unsigned>(VectorBlocks<Tile>(args, limits))),
            .block = dim3(kVectorThreads),
            .shared_bytes = VectorShared<Tile>::Bytes(args),
            .stream = stream,
            .may_start_early = true},
           args);
  });
}

}  // namespace baton
