#include "common/backend/cuda/experts/expert_mixer.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "common/backend/cuda/experts/expert_choice.h"
#include "common/backend/cuda/experts/expert_pairs.h"
#include "common/backend/cuda/experts/expert_product.h"
#include "common/backend/cuda/experts/expert_sum.h"
#include "common/backend/cuda/product/product_terms.h"
#include "common/backend/cuda/weight/cuda_weight.h"

namespace baton {
namespace {

constexpr size_t kScratchAlign = 256;

int WidthOf(const ExpertMix& mix) { return mix.in.columns; }
int ExpertWidthOf(const ExpertMix& mix) { return mix.experts.gate.front()->rows(); }

bool AreQuantised(absl::Span<const std::unique_ptr<Weight>> weights) {
  return IsQuantised(MatrixOf(*weights.front()).element);
}

int TermsOfInput(const ExpertMix& mix) {
  return AreQuantised(mix.experts.gate) || AreQuantised(mix.experts.up) ? 1 : mix.terms;
}
int TermsOfGated(const ExpertMix& mix) { return AreQuantised(mix.experts.down) ? 1 : mix.terms; }

// The pairs of a tile: few if an expert has few rows on average, so that no row is multiplied in
// vain; two where hardly any has more.
int TilePairs(const ExpertMix& mix, int rows) {
  const Experts& all = mix.experts;
  const int experts = mix.router.columns;
  const int pairs = rows * all.used;
  const bool quantised = AreQuantised(all.gate) && AreQuantised(all.up) && AreQuantised(all.down);
  if (!mix.invariant && quantised && (rows <= kTwoTilePairs || 2 * pairs <= experts)) {
    return kTwoTilePairs;
  }
  return pairs <= experts * kFewTilePairs ? kFewTilePairs : kManyTilePairs;
}

// Where the arrays of some rows lie in the scratch memory.
class Layout {
 public:
  Layout(const ExpertMix& mix, int rows)
      : pairs(rows * mix.experts.used),
        experts(mix.router.columns),
        tile_pairs(TilePairs(mix, rows)),
        max_tiles(MaxExpertTiles(pairs, experts, tile_pairs)) {
    const auto ints = [this](int count) { return Add(static_cast<size_t>(count) * 4); };
    const auto floats = [this](int count, int columns) {
      return Add(static_cast<size_t>(count) * static_cast<size_t>(columns) * sizeof(float));
    };
    choices = ints(pairs);
    shares = ints(pairs);
    counts = ints(experts);
    order = ints(pairs);
    tiles = Add(static_cast<size_t>(max_tiles) * sizeof(ExpertTile));
    tile_count = ints(1);
    in_terms = Add(ProductTermBytes(TermsOfInput(mix), rows, WidthOf(mix)));
    gated_terms = Add(ProductTermBytes(TermsOfGated(mix), pairs, ExpertWidthOf(mix)));
    gate = floats(pairs, ExpertWidthOf(mix));
    up = floats(pairs, ExpertWidthOf(mix));
    down = floats(pairs, WidthOf(mix));
  }

  int pairs;
  int experts;
  int tile_pairs;
  int max_tiles;
  size_t choices;      // [pairs]
  size_t shares;       // [pairs]
  size_t counts;       // ExpertPairs
  size_t order;        // ExpertPairs
  size_t tiles;        // ExpertPairs
  size_t tile_count;   // ExpertPairs
  size_t in_terms;     // the terms of [rows, width] inputs
  size_t gated_terms;  // the terms of [pairs, expert_width] gated values
  size_t gate;         // [pairs, expert_width]
  size_t up;           // [pairs, expert_width]
  size_t down;         // [pairs, width]
  size_t bytes = 0;

 private:
  size_t Add(size_t size) {
    const size_t offset = bytes;
    bytes += (size + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
    return offset;
  }
};

// As many rows as fit into kExpertScratchBytes, but one at least.
int RowsTogether(const ExpertMix& mix) {
  int rows = mix.in.rows;
  while (rows > 1 && Layout(mix, rows).bytes > kExpertScratchBytes) rows = (rows + 1) / 2;
  return rows;
}

std::vector<CudaMatrix> MatricesOf(absl::Span<const std::unique_ptr<Weight>> weights) {
  std::vector<CudaMatrix> matrices;
  for (const std::unique_ptr<Weight>& weight : weights) {
    matrices.push_back(MatrixOf(*weight));
  }
  return matrices;
}

// The matrices of a mixture's experts, and the kernels for some of its rows.
class Mixture {
 public:
  Mixture(const ExpertMix& mix, cudaStream_t stream)
      : mix_(mix),
        stream_(stream),
        gates_(MatricesOf(mix.experts.gate)),
        ups_(MatricesOf(mix.experts.up)),
        downs_(MatricesOf(mix.experts.down)) {}

  // Adds rows [first, first + rows).
  void AddRows(int first, int rows, const Layout& layout, uint8_t* scratch) const {
    auto* const choices = At<int32_t>(scratch, layout.choices);
    auto* const shares = At<float>(scratch, layout.shares);
    const int used = mix_.experts.used;
    LaunchChooseExperts({mix_.router.Row(first), rows, mix_.router.columns}, used, choices, shares,
                        stream_);
    const ExpertPairs pairs = {.counts = At<int32_t>(scratch, layout.counts),
                               .order = At<int32_t>(scratch, layout.order),
                               .tiles = At<ExpertTile>(scratch, layout.tiles),
                               .tile_count = At<int32_t>(scratch, layout.tile_count),
                               .max_tiles = layout.max_tiles};
    LaunchGroupPairs(choices, layout.pairs, layout.experts, layout.tile_pairs, pairs, stream_);

    const ProductTerms in =
        LaunchProductTerms({.kind = VectorInput::Kind::kNorm,
                            .in = {mix_.in.Row(first), rows, WidthOf(mix_)},
                            .other = mix_.gain,
                            .epsilon = mix_.epsilon},
                           TermsOfInput(mix_), scratch + layout.in_terms, stream_);
    auto* const gate = At<float>(scratch, layout.gate);
    auto* const up = At<float>(scratch, layout.up);
    MultiplyIn({.terms = in, .pairs_of_row = used}, pairs, layout.tile_pairs, gate, up);
    const ProductTerms gated =
        LaunchProductTerms({.kind = VectorInput::Kind::kGated,
                            .in = {gate, layout.pairs, ExpertWidthOf(mix_)},
                            .other = up,
                            .function = mix_.experts.function},
                           TermsOfGated(mix_), scratch + layout.gated_terms, stream_);
    auto* const down = At<float>(scratch, layout.down);
    const ExpertOutput output = {downs_, mix_.experts.down_bias, down};
    LaunchExpertProduct({.terms = gated}, {&output, 1}, pairs, layout.tile_pairs, stream_);
    LaunchAddExpertSums(down, shares, used, mix_.scale, {mix_.out.Row(first), rows, WidthOf(mix_)},
                        stream_);
  }

 private:
  template <class T>
  static T* At(uint8_t* scratch, size_t offset) {
    return reinterpret_cast<T*>(scratch + offset);
  }

  // The gates and ups of all pairs: together, unless their types differ.
  void MultiplyIn(const ExpertProductInput& in, const ExpertPairs& pairs, int tile_pairs,
                  float* gate, float* up) const {
    const ExpertOutput outputs[] = {{gates_, mix_.experts.gate_bias, gate},
                                    {ups_, mix_.experts.up_bias, up}};
    const std::span<const ExpertOutput> both(outputs);
    if (gates_.front().element == ups_.front().element) {
      return LaunchExpertProduct(in, both, pairs, tile_pairs, stream_);
    }
    LaunchExpertProduct(in, both.first(1), pairs, tile_pairs, stream_);
    LaunchExpertProduct(in, both.last(1), pairs, tile_pairs, stream_);
  }

  const ExpertMix& mix_;
  const cudaStream_t stream_;
  const std::vector<CudaMatrix> gates_;
  const std::vector<CudaMatrix> ups_;
  const std::vector<CudaMatrix> downs_;
};

}  // namespace

size_t ExpertScratchBytes(const ExpertMix& mix) { return Layout(mix, RowsTogether(mix)).bytes; }

void LaunchAddExperts(const ExpertMix& mix, uint8_t* scratch, cudaStream_t stream) {
  const Mixture mixture(mix, stream);
  const int together = RowsTogether(mix);
  for (int first = 0; first < mix.in.rows; first += together) {
    const int rows = std::min(together, mix.in.rows - first);
    mixture.AddRows(first, rows, Layout(mix, rows), scratch);
  }
}

}  // namespace baton
