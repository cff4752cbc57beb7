#include "common/backend/cpu/product/product.h"

#include <algorithm>
#include <cstdint>

#include "absl/container/inlined_vector.h"

#include "common/backend/cpu/kernels/kernels.h"

namespace baton {
namespace {

ProductArgs ArgsFor(const ProductPart& part, ProductScratch& scratch) {
  const auto& [input, output] = part;
  const CpuWeight& weight = AsCpu(*output.weight);
  const bool quantised = weight.quantised();
  return {.type = weight.type(),
          .weight = weight.data(),
          .group_bytes = weight.group_bytes(),
          .columns = weight.columns(),
          .rows = quantised ? input.rows * input.terms : input.rows,
          .blocks = input.blocks,
          .block_stride = input.block_stride,
          .floats = input.floats,
          .float_stride = input.float_stride,
          .terms = quantised ? input.terms : 1,
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

void MultiplyParts(const CpuKernels& kernels, ThreadPool& pool, absl::Span<const ProductPart> parts,
                   std::vector<ProductScratch>& scratch) {
  // All parts are one operation: their groups follow one another, cut at multiples of a tile.
  absl::InlinedVector<int64_t, 16> ends;  // [parts]: the tiles of the parts up to each one
  int64_t tiles = 0;
  int rows = 0;
  for (const ProductPart& part : parts) {
    tiles += (AsCpu(*part.output.weight).groups() + kMaxTileGroups - 1) / kMaxTileGroups;
    ends.push_back(tiles);
    rows = std::max(rows, part.input.rows * part.input.terms);
  }
  // With many rows a tile takes long enough to be a chunk of its own.
  constexpr int kChunksPerThread = 4;
  const int64_t chunks = pool.size() == 1 ? 1
                         : rows > kMaxDirectRows
                             ? tiles
                             : std::min<int64_t>(tiles, pool.size() * kChunksPerThread);
  pool.Run(static_cast<int>(chunks), [&](int thread, int chunk) {
    ProductScratch& own = scratch[static_cast<size_t>(thread)];
    Grow(rows, own);
    const int64_t last = tiles * (chunk + 1) / chunks;
    int64_t tile = tiles * chunk / chunks;
    auto end = std::upper_bound(ends.begin(), ends.end(), tile);
    for (; tile < last; tile = *end++) {
      const ProductPart& part = parts[static_cast<size_t>(end - ends.begin())];
      const int64_t first = end == ends.begin() ? 0 : end[-1];  // the part's first tile
      const int64_t groups = AsCpu(*part.output.weight).groups();
      kernels.product(
          ArgsFor(part, own), static_cast<int>((tile - first) * kMaxTileGroups),
          static_cast<int>(std::min((std::min(last, *end) - first) * kMaxTileGroups, groups)));
    }
  });
}

void MultiplyWeights(const CpuKernels& kernels, ThreadPool& pool, const ProductInput& input,
                     absl::Span<const Backend::ProductOutput> outputs,
                     std::vector<ProductScratch>& scratch) {
  absl::InlinedVector<ProductPart, 4> parts;
  for (const Backend::ProductOutput& output : outputs) {
    parts.push_back({input.Rows(0, input.rows()), output});
  }
  MultiplyParts(kernels, pool, parts, scratch);
}

}  // namespace baton
