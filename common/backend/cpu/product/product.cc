#include "common/backend/cpu/product/product.h"

#include <algorithm>
#include <cstdint>

#include "common/backend/cpu/kernels/kernels.h"

namespace baton {
namespace {

const CpuWeight& AsCpu(const Weight& weight) { return static_cast<const CpuWeight&>(weight); }

ProductArgs ArgsFor(const ProductInput& input, const Backend::ProductOutput& output,
                    ProductScratch& scratch) {
  const CpuWeight& weight = AsCpu(*output.weight);
  const bool quantised = weight.quantised();
  return {.type = weight.type(),
          .weight = weight.data(),
          .group_bytes = weight.group_bytes(),
          .columns = weight.columns(),
          .rows = quantised ? input.rows() * input.terms() : input.rows(),
          .blocks = input.blocks(),
          .floats = input.floats(),
          .terms = quantised ? input.terms() : 1,
          .out = output.out.data,
          .out_columns = output.out.columns,
          .accumulate = output.accumulate,
          .scale = output.scale,
          .panel = scratch.panel.data(),
          .float_panel = scratch.float_panel.data(),
          .sums = scratch.sums.data()};
}

void Grow(int rows, ProductScratch& scratch) {
  scratch.panel.resize(kMaxTileGroups * kPanelBlocks);
  scratch.float_panel.resize(kMaxTileGroups * kFloatPanelColumns);
  const size_t sums = static_cast<size_t>(rows) * kMaxTileGroups;
  if (scratch.sums.size() < sums) scratch.sums.resize(sums);
}

}  // namespace

void MultiplyWeights(const CpuKernels& kernels, ThreadPool& pool, const ProductInput& input,
                     absl::Span<const Backend::ProductOutput> outputs,
                     std::vector<ProductScratch>& scratch) {
  // All outputs are one operation: their groups follow one another, cut at multiples of a tile.
  int64_t tiles = 0;
  for (const Backend::ProductOutput& output : outputs) {
    tiles += (AsCpu(*output.weight).groups() + kMaxTileGroups - 1) / kMaxTileGroups;
  }
  // With many rows a tile takes long enough to be a chunk of its own.
  constexpr int kChunksPerThread = 4;
  const bool many = input.rows() * input.terms() > kMaxDirectRows;
  const int64_t chunks = pool.size() == 1 ? 1
                         : many           ? tiles
                                : std::min<int64_t>(tiles, pool.size() * kChunksPerThread);
  pool.Run(static_cast<int>(chunks), [&](int thread, int chunk) {
    ProductScratch& own = scratch[static_cast<size_t>(thread)];
    Grow(input.rows() * input.terms(), own);
    int64_t begin = tiles * chunk / chunks * kMaxTileGroups;
    int64_t end = tiles * (chunk + 1) / chunks * kMaxTileGroups;
    for (const Backend::ProductOutput& output : outputs) {
      const int64_t groups = AsCpu(*output.weight).groups();
      if (begin < std::min(end, groups)) {
        kernels.product(ArgsFor(input, output, own), static_cast<int>(begin),
                        static_cast<int>(std::min(end, groups)));
      }
      const int64_t padded = (groups + kMaxTileGroups - 1) / kMaxTileGroups * kMaxTileGroups;
      begin = std::max<int64_t>(0, begin - padded);
      end -= padded;
      if (end <= 0) break;
    }
  });
}

}  // namespace baton
