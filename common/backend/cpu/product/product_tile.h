// The sums of a tile of rows and groups, and their way between registers and memory. Only the
// sources of the kernel tables (kernels.h) include it.
#pragma once

#include <cstddef>
#include <type_traits>

#include "common/backend/cpu/product/product.h"

namespace baton {

// Calls tile(rows, first_row) for consecutive tiles of `rows()` rows: as many tiles of `Most` rows
// as there are, then of the powers of two below, so that each size is compiled once.
template <int Most, class Tile>
[[gnu::always_inline]] inline void ForTiles(int rows, Tile tile, int first = 0) {
  for (; first + Most <= rows; first += Most) tile(std::integral_constant<int, Most>(), first);
  if constexpr (Most > 1) {
    constexpr int kNext = Most > 8 ? 8 : Most > 4 ? 4 : Most > 2 ? 2 : 1;
    ForTiles<kNext>(rows, tile, first);
  }
}

// Calls tile(rows) for a number of rows that is known only at run time. REQUIRES: 1 <= rows <= Most.
template <int Most, class Tile>
[[gnu::always_inline]] inline void ForRows(int rows, Tile tile) {
  if constexpr (Most > 1) {
    if (rows < Most) return ForRows<Most - 1>(rows, tile);
  }
  tile(std::integral_constant<int, Most>());
}

// As ForTiles, but what is left is one tile, so that each size below `Most` is compiled too: for
// tiles of which each unpacks the weights, which costs nearly as much with few rows.
template <int Most, class Tile>
[[gnu::always_inline]] inline void ForTilesAndRest(int rows, Tile tile) {
  int first = 0;
  for (; first + Most <= rows; first += Most) tile(std::integral_constant<int, Most>(), first);
  if (first == rows) return;
  ForRows<Most>(
      rows - first, [&](auto rest) __attribute__((always_inline)) { tile(rest, first); });
}

// Sums stay in registers only if every loop over them is unrolled and nothing takes their
// address.
template <class Simd, int Rows, int Groups>
struct ProductTile {
  using F = typename Simd::F;
  using Sums = F[Groups][Rows];

  // Loads the sums that the panels before left in `saved` [Rows, Groups].
  [[gnu::always_inline]] static void Load(const Lanes* saved, bool first_panel, Sums& sums) {
#pragma GCC unroll 4
    for (int g = 0; g < Groups; ++g) {
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        sums[g][r] = first_panel ? Simd::Zero() : Simd::Load(saved[r * Groups + g].v);
      }
    }
  }

  [[gnu::always_inline]] static void Save(const Sums& sums, Lanes* saved) {
#pragma GCC unroll 4
    for (int g = 0; g < Groups; ++g) {
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) Simd::Store(saved[r * Groups + g].v, sums[g][r]);
    }
  }

  // Writes the outputs of rows from `row` on and groups from `group` on. The two terms of a row are
  // in the same tile, because all tiles are even then.
  [[gnu::always_inline]] static void Finish(const ProductArgs& args, int row, int group,
                                            const Sums& sums) {
    const bool whole = args.out_columns - group * kLanes >= Groups * kLanes;
    if constexpr (Rows % 2 == 0) {
      if (whole && args.terms == 2) {
        F added[Groups][Rows / 2];
#pragma GCC unroll 4
        for (int g = 0; g < Groups; ++g) {
#pragma GCC unroll 8
          for (int r = 0; r < Rows / 2; ++r) {
            added[g][r] = Simd::Add(sums[g][2 * r], sums[g][2 * r + 1]);
          }
        }
        return ProductTile<Simd, Rows / 2, Groups>::WriteAll(args, row / 2, group, added);
      }
    }
    if (!whole || args.terms != 1) {
      Lanes lanes[Rows * Groups];
      Save(sums, lanes);
      return FinishAny(args, row, group, lanes);
    }
    WriteAll(args, row, group, sums);
  }

  // Writes whole groups of rows of which each is one row of the output.
  [[gnu::always_inline]] static void WriteAll(const ProductArgs& args, int row, int group,
                                              const Sums& sums) {
    const size_t columns = static_cast<size_t>(args.out_columns);
    float* out = args.out + static_cast<size_t>(row) * columns + group * kLanes;
    if (args.accumulate) {
      Write<true>(out, columns, args.scale, sums);
    } else {
      Write<false>(out, columns, args.scale, sums);
    }
  }

 private:
  template <bool kAccumulate>
  [[gnu::always_inline]] static void Write(float* out, size_t columns, float scale,
                                           const Sums& sums) {
#pragma GCC unroll 4
    for (int g = 0; g < Groups; ++g) {
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        float* at = out + static_cast<size_t>(r) * columns + g * kLanes;
        Simd::Store(
            at, kAccumulate ? Simd::Fma(sums[g][r], Simd::Set(scale), Simd::Load(at)) : sums[g][r]);
      }
    }
  }

  // Finish for any tile, also for a last group of fewer than 16 outputs. `sums` [Rows, Groups].
  [[gnu::noinline]] static void FinishAny(const ProductArgs& args, int row, int group,
                                          const Lanes* sums) {
    for (int r = 0; r < Rows; r += args.terms) {
      float* out =
          args.out +
          static_cast<size_t>((row + r) / args.terms) * static_cast<size_t>(args.out_columns) +
          group * kLanes;
      const int left = args.out_columns - group * kLanes;
      for (int column = 0; column < Groups * kLanes && column < left; ++column) {
        const int at = r * Groups + column / kLanes;
        float sum = sums[at].v[column % kLanes];
        if (args.terms == 2) sum += sums[at + Groups].v[column % kLanes];
        out[column] = args.accumulate ? __builtin_fmaf(sum, args.scale, out[column]) : sum;
      }
    }
  }
};

}  // namespace baton
