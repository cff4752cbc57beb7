// The kernels for BF16 weights: which of them a product takes.
#include "common/backend/cuda/product/invariant/invariant_bf16_parts.h"
#include "common/backend/cuda/product/invariant/invariant_bf16_tile.h"
#include "common/backend/cuda/product/invariant/invariant_product_launch.h"

namespace baton {

using Bf16Block = InvariantBlock<CudaElement::kBf16>;

// Each Try launches a kernel, or launches nothing and returns false.

template <int kRowTiles, int kTerms>
static bool TryParts(const ProductTerms& in, std::span<const VectorOutput> outputs,
                     const DeviceLimits& limits, cudaStream_t stream) {
  using Shape = Bf16PartsShape<kRowTiles, kTerms>;
  if (limits.shared_bytes < Shape::kSharedBytes) return false;
  unsigned blocks = 0;
  const InvariantArgs args =
      InvariantArgsFor<Bf16Block>(in, outputs, kWarpOutputs, Shape::kRows, &blocks);
  if (blocks == 0) return true;
  // Few blocks would take longer than four times as many smaller ones.
  if (int64_t{blocks} * 5 < limits.multiprocessors) return false;
  Launch(Bf16PartsKernel<kRowTiles, kTerms>,
         {.grid = blocks,
          .block = kInvariantThreads,
          .shared_bytes = Shape::kSharedBytes,
          .stream = stream,
          .may_start_early = true},
         args);
  return true;
}

template <int kRows>
static void LaunchTiles(const InvariantArgs& args, unsigned blocks, cudaStream_t stream) {
  Launch(Bf16TileKernel<kRows>,
         {.grid = blocks,
          .block = kInvariantThreads,
          .shared_bytes = Bf16TileShape<kRows>::kSharedBytes,
          .stream = stream,
          .may_start_early = true},
         args);
}

static bool TryTiles(const ProductTerms& in, std::span<const VectorOutput> outputs,
                     const DeviceLimits& limits, cudaStream_t stream) {
  using Small = Bf16TileShape<128>;
  using Large = Bf16TileShape<256>;
  if (limits.shared_bytes < Small::kSharedBytes) return false;
  unsigned small_blocks = 0;
  unsigned large_blocks = 0;
  const InvariantArgs small =
      InvariantArgsFor<Bf16Block>(in, outputs, kTileOutputs, Small::kRows, &small_blocks);
  const InvariantArgs large =
      InvariantArgsFor<Bf16Block>(in, outputs, kTileOutputs, Large::kRows, &large_blocks);
  if (small_blocks == 0) return true;
  if (!EnoughTiles(small_blocks, limits.multiprocessors)) return false;
  const auto waves = [&](unsigned blocks) { return BlocksFor(blocks, limits.multiprocessors); };
  // A large tile takes about 1.7 times as long as a small one, which reads its operands more often.
  if (limits.shared_bytes >= Large::kSharedBytes &&
      17 * waves(large_blocks) <= 10 * waves(small_blocks)) {
    LaunchTiles<Large::kRows>(large, large_blocks, stream);
  } else {
    LaunchTiles<Small::kRows>(small, small_blocks, stream);
  }
  return true;
}

template <int kTerms>
static bool TryManyRows(const ProductTerms& in, std::span<const VectorOutput> outputs,
                        const DeviceLimits& limits, cudaStream_t stream) {
  const bool tiles = kTerms == 1 && in.rows >= kInvariantTilesFrom;
  if (tiles && TryTiles(in, outputs, limits, stream)) return true;
  return in.rows <= 32 ? TryParts<4, kTerms>(in, outputs, limits, stream)
                       : TryParts<8, kTerms>(in, outputs, limits, stream);
}

void LaunchBf16InvariantProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                                const DeviceLimits& limits, cudaStream_t stream) {
  const auto try_many_rows = in.terms == 2 ? &TryManyRows<2> : &TryManyRows<1>;
  if (in.rows > 16 && try_many_rows(in, outputs, limits, stream)) return;
  LaunchInvariantElement<CudaElement::kBf16>(in, outputs, limits, {}, stream);
}

}  // namespace baton
