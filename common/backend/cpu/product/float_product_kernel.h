// The computation of product.h for float weights. Only the sources of the kernel tables (kernels.h)
// include it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/cpu/product/next_groups.h"
#include "common/backend/cpu/product/product_tile.h"

namespace baton {

template <class Simd>
struct F32Element {
  using Stored = float;
  [[gnu::always_inline]] static auto Load(const float* x) { return Simd::Load(x); }
};
template <class Simd>
struct F16Element {
  using Stored = uint16_t;
  [[gnu::always_inline]] static auto Load(const uint16_t* x) { return Simd::LoadF16(x); }
};
template <class Simd>
struct Bf16Element {
  using Stored = uint16_t;
  [[gnu::always_inline]] static auto Load(const uint16_t* x) { return Simd::LoadBf16(x); }
};

template <class Simd, class Element>
struct FloatProduct {
  using F = typename Simd::F;
  using Stored = typename Element::Stored;

  // Few rows use no panel. A tile has as many rows as have their sums in registers.
  static constexpr int kRegisterSums = Simd::kFloatTileRows * Simd::kTileGroups;
  static constexpr int kDirectRows = kRegisterSums >= 16 ? 8 : kRegisterSums >= 4 ? 4 : 2;
  // More rows than one tile find the weights in the second cache, but widen them again.
  static constexpr int kMostDirectRows = 4 * kDirectRows;
  // A single chain of FMAs per output is as slow as the latency of an FMA; several groups together
  // hide it.
  template <int Rows>
  static constexpr int kDirectGroups = Rows <= 2 || 4 * Rows <= kRegisterSums ? 4
                                       : 2 * Rows <= kRegisterSums            ? 2
                                                                              : 1;
  static constexpr size_t kPrefetchBytes = 3072;

  [[gnu::always_inline]] static const Stored* Group(const ProductArgs& args, int group) {
    return reinterpret_cast<const Stored*>(args.weight +
                                           static_cast<size_t>(group) * args.group_bytes);
  }

  template <int Rows, int Groups>
  [[gnu::noinline]] static void DirectTile(const ProductArgs& args, int row, int group) {
    const size_t columns = static_cast<size_t>(args.columns);
    const size_t stride = static_cast<size_t>(args.float_stride);
    const float* input = args.floats + static_cast<size_t>(row) * stride;
    using Tile = ProductTile<Simd, Rows, Groups>;
    typename Tile::Sums sums;
    const Stored* weight[Groups];
    for (int g = 0; g < Groups; ++g) {
      weight[g] = Group(args, group + g);
      for (int r = 0; r < Rows; ++r) sums[g][r] = Simd::Zero();
    }
    for (size_t k = 0; k < columns; ++k) {
      for (int g = 0; g < Groups; ++g) {
        const Stored* w = weight[g] + k * kLanes;
        __builtin_prefetch(reinterpret_cast<const uint8_t*>(w) + kPrefetchBytes);
        const F widened = Element::Load(w);
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) {
          const F x = Simd::Set(input[static_cast<size_t>(r) * stride + k]);
          sums[g][r] = Simd::Fma(widened, x, sums[g][r]);
        }
      }
    }
    Tile::Finish(args, row, group, sums);
  }

  // Multiplies `Rows` rows with the panel of columns [first, first + count), [column][group][16].
  template <int Rows, int Groups>
  [[gnu::noinline]] static void PanelRows(const ProductArgs& args, int row, int group, int first,
                                          int count) {
    const size_t stride = static_cast<size_t>(args.float_stride);
    const float* input = args.floats + static_cast<size_t>(row) * stride + first;
    using Tile = ProductTile<Simd, Rows, Groups>;
    typename Tile::Sums sums;
    Lanes* saved = args.sums + static_cast<size_t>(row) * Groups;
    Tile::Load(saved, first == 0, sums);
    const Lanes* panel = args.float_panel;
    for (int k = 0; k < count; ++k, panel += Groups) {
      F weights[Groups];
      for (int g = 0; g < Groups; ++g) weights[g] = Simd::Load(panel[g].v);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const F x = Simd::Set(input[static_cast<size_t>(r) * stride + k]);
        for (int g = 0; g < Groups; ++g) sums[g][r] = Simd::Fma(weights[g], x, sums[g][r]);
      }
    }
    if (first + count == args.columns) {
      Tile::Finish(args, row, group, sums);
    } else {
      Tile::Save(sums, saved);
    }
  }

  template <int Groups>
  static void Panels(const ProductArgs& args, int group) {
    const int panels = (args.columns + kFloatPanelColumns - 1) / kFloatPanelColumns;
    // Panels get about the same length, because a short last panel would cost most.
    const int most = (args.columns + panels - 1) / panels;
    NextGroups next(args, group, Groups, args.rows / Simd::kFloatTileRows * panels);
    for (int first = 0; first < args.columns; first += most) {
      const int left = args.columns - first;
      const int count = left < most ? left : most;
      for (int g = 0; g < Groups; ++g) {
        const Stored* weight = Group(args, group + g) + static_cast<size_t>(first) * kLanes;
        for (int k = 0; k < count; ++k) {
          Simd::Store(args.float_panel[k * Groups + g].v, Element::Load(weight + k * kLanes));
        }
      }
      ForTiles<Simd::kFloatTileRows>(args.rows, [&](auto rows, int row) {
        next.PrefetchSome();
        PanelRows<rows(), Groups>(args, row, group, first, count);
      });
    }
  }

  // Computes the outputs of groups [begin, end) without a panel; args.rows are `Rows`, or more than
  // kDirectRows.
  template <int Rows>
  static void Direct(const ProductArgs& args, int begin, int end) {
    constexpr int kGroups = kDirectGroups<Rows>;
    int group = begin;
    for (; group + kGroups <= end; group += kGroups) {
      ForTiles<Rows>(args.rows,
                     [&](auto rows, int row) { DirectTile<rows(), kGroups>(args, row, group); });
    }
    for (; group < end; ++group) {
      ForTiles<Rows>(args.rows,
                     [&](auto rows, int row) { DirectTile<rows(), 1>(args, row, group); });
    }
  }

  // The same for args.rows rows. As many as `Rows` or fewer are one tile.
  template <int Rows>
  static void DirectRows(const ProductArgs& args, int begin, int end) {
    if constexpr (Rows > 1) {
      if (args.rows < Rows) return DirectRows<Rows - 1>(args, begin, end);
    }
    Direct<Rows>(args, begin, end);
  }

  // Computes the outputs of groups [begin, end).
  static void Run(const ProductArgs& args, int begin, int end) {
    if (args.rows <= kMostDirectRows) return DirectRows<kDirectRows>(args, begin, end);
    int group = begin;
    for (; group + Simd::kTileGroups <= end; group += Simd::kTileGroups) {
      Panels<Simd::kTileGroups>(args, group);
    }
    for (; group < end; ++group) Panels<1>(args, group);
  }
};

}  // namespace baton
