// From the description of a vector product to the launch of its kernel. Several sources include
// this and instantiate vector_product_kernel.h, each for some element types.
#pragma once

#include <algorithm>
#include <span>

#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/product/vector_product.h"
#include "common/backend/cuda/product/vector_product_kernel.h"
#include "common/backend/cuda/product/weight_layout.h"

namespace baton {

inline int CeilDiv(int64_t value, int divisor) {
  return static_cast<int>((value + divisor - 1) / divisor);
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
  args.rows = input.in.rows;
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
    all_rows += weight.rows;
  }
  args.row_bytes = static_cast<int64_t>(CudaRowBytes(Tile::kElement, args.columns));
  args.team_warps = VectorTeamWarps(Tile::kElement, all_rows, args.columns);
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
  const size_t step_bytes = static_cast<size_t>(args.rows) * static_cast<size_t>(args.step_chunks) *
                            Tile::kQuads * sizeof(float4);
  const int tile_steps = std::clamp(static_cast<int>(room / step_bytes), 1, steps);
  args.tile_step_chunks = tile_steps * args.step_chunks;
  args.tile_chunks = std::min(tile_steps * Tile::kSweeps, sweeps) * lanes;
  return args;
}

template <CudaElement kElement, int kMaxRows, int kUnitRows, int kSweeps, int kBlocks>
void LaunchTile(const VectorInput& input, std::span<const VectorOutput> outputs,
                const DeviceLimits& limits, cudaStream_t stream) {
  using Tile = VectorTile<kElement, kMaxRows, kUnitRows, kSweeps, kBlocks>;
  VectorArgs args = ArgsFor<Tile>(input, outputs, limits);
  if (args.matrix_count == 0) return;
  const int blocks = std::min(args.units, limits.multiprocessors * kBlocks);
  args.rounds = CeilDiv(args.units, blocks * (kVectorWarps / args.team_warps));
  Launch(VectorProductKernel<Tile>,
         {.grid = dim3(static_cast<unsigned>(blocks)),
          .block = dim3(kVectorThreads),
          .shared_bytes = VectorShared<Tile>::Bytes(args),
          .stream = stream,
          .may_start_early = true},
         args);
}

// Multiplies with those outputs' weights that are quantised (vector_product_quantised.cu).
void LaunchQuantisedVectorProduct(const VectorInput& input, std::span<const VectorOutput> outputs,
                                  const DeviceLimits& limits, cudaStream_t stream);

}  // namespace baton
