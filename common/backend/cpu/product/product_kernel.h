// The computation of product.h for quantised weights; float weights are in float_product_kernel.h.
// Only the sources of the kernel tables (kernels.h) include it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/cpu/product/next_groups.h"
#include "common/backend/cpu/product/product.h"
#include "common/backend/cpu/product/product_formats.h"
#include "common/backend/cpu/product/product_tile.h"

namespace baton {

template <class Simd, class Format>
struct QuantisedProduct {
  using F = typename Simd::F;
  using I = typename Simd::I;
  using Bytes = typename Simd::Bytes;

  // How far ahead weights are fetched. Two rows are the terms of the output head's input, whose
  // weights are read in one go; bytes fetched behind the end of an expert's weights are not used.
  template <int Rows>
  static constexpr size_t kPrefetchBytes = Rows == 2 ? 49152 : 8192;

  // The value at which the integer sum of a block, or of one of its halves, starts, so that the
  // offset of the codes is taken out.
  [[gnu::always_inline]] static I Start(const QuantizedBlock& x, int half) {
    if constexpr (Format::kHasMin) return Simd::SetInt(0);
    if constexpr (Format::kHalfScales) return Simd::SetInt(x.half_starts[half]);
    return Simd::template ShiftLeft<Format::kOffsetBits>(Simd::SetInt(x.negative_sum));
  }

  [[gnu::always_inline]] static F AddScaled(I integer, F scale, const QuantizedBlock& x, F sum) {
    return Simd::Fma(Simd::FromInt(integer), Simd::Mul(scale, Simd::Set(x.scale)), sum);
  }

  template <int Rows>
  [[gnu::noinline]] static void DirectRows(const ProductArgs& args, int row, int group) {
    const uint8_t* weight = args.weight + static_cast<size_t>(group) * args.group_bytes;
    const int blocks = args.columns / kQuantBlock;
    const size_t block_bytes = args.group_bytes / static_cast<size_t>(blocks);
    const size_t stride = static_cast<size_t>(args.block_stride);
    const QuantizedBlock* input = args.blocks + static_cast<size_t>(row) * stride;
    typename ProductTile<Simd, Rows, 1>::Sums tile;
    auto& sums = tile[0];
    for (int r = 0; r < Rows; ++r) sums[r] = Simd::Zero();
    for (int b = 0; b < blocks; ++b) {
      const uint8_t* ahead = weight + static_cast<size_t>(b) * block_bytes + kPrefetchBytes<Rows>;
      for (size_t byte = 0; byte < block_bytes; byte += 64) __builtin_prefetch(ahead + byte);
      Bytes quads[kQuads];
      Format::Codes(weight, b, quads);
      // Rows take turns, so that none waits for its own last dot product.
      I integers[Rows];
      for (int half = 0; half < (Format::kHalfScales ? 2 : 1); ++half) {
        constexpr int kSteps = Format::kHalfScales ? kQuads / 2 : kQuads;
        for (int r = 0; r < Rows; ++r) integers[r] = Start(input[r * stride + b], half);
        for (int step = 0; step < kSteps; ++step) {
          const int q = half * kSteps + step;
          for (int r = 0; r < Rows; ++r) {
            integers[r] = Simd::template Dot<Format::kWide>(
                integers[r], quads[q], Simd::SetQuad(input[r * stride + b].values + 4 * q));
          }
        }
        const F scale = Format::Scale(weight, b, half);
        for (int r = 0; r < Rows; ++r) {
          sums[r] = AddScaled(integers[r], scale, input[r * stride + b], sums[r]);
        }
      }
      if constexpr (Format::kHasMin) {
        const F min = Format::Min(weight, b);
        for (int r = 0; r < Rows; ++r) {
          sums[r] = Simd::Fma(min, Simd::Set(input[r * stride + b].scaled_sum), sums[r]);
        }
      }
    }
    ProductTile<Simd, Rows, 1>::Finish(args, row, group, tile);
  }

  [[gnu::always_inline]] static void Unpack(const uint8_t* group, int first, int count,
                                            PanelBlock* panel) {
    for (int b = first; b < first + count; ++b, ++panel) {
      Bytes quads[kQuads];
      Format::Codes(group, b, quads);
      for (int q = 0; q < kQuads; ++q) Simd::StoreBytes(panel->codes[q], quads[q]);
      Simd::Store(panel->scale[0], Format::Scale(group, b, 0));
      if constexpr (Format::kHalfScales) Simd::Store(panel->scale[1], Format::Scale(group, b, 1));
      if constexpr (Format::kHasMin) Simd::Store(panel->min, Format::Min(group, b));
    }
  }

  // Adds the panel's `count` blocks of `Groups` groups to the sums of `Rows` rows. `input` points
  // to the first row's block that belongs to the panel's first block.
  template <int Rows, int Groups>
  [[gnu::always_inline]] static void PanelTile(const PanelBlock* panel, int count,
                                               const QuantizedBlock* input, size_t stride,
                                               F (&sums)[Groups][Rows]) {
    for (int b = 0; b < count; ++b, ++panel, ++input) {
      I integers[Groups][Rows];
      for (int half = 0; half < (Format::kHalfScales ? 2 : 1); ++half) {
        constexpr int kSteps = Format::kHalfScales ? kQuads / 2 : kQuads;
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r) {
          const I start = Start(input[static_cast<size_t>(r) * stride], half);
          for (int g = 0; g < Groups; ++g) integers[g][r] = start;
        }
#pragma GCC unroll 8
        for (int step = 0; step < kSteps; ++step) {
          const int q = half * kSteps + step;
          Bytes codes[Groups];
          for (int g = 0; g < Groups; ++g) {
            codes[g] = Simd::LoadBytes(panel[g * kPanelBlocks].codes[q]);
          }
#pragma GCC unroll 8
          for (int r = 0; r < Rows; ++r) {
            const Bytes quad = Simd::SetQuad(input[static_cast<size_t>(r) * stride].values + 4 * q);
            for (int g = 0; g < Groups; ++g) {
              integers[g][r] = Simd::template Dot<Format::kWide>(integers[g][r], codes[g], quad);
            }
          }
        }
#pragma GCC unroll 8
        for (int g = 0; g < Groups; ++g) {
          const F scale = Simd::Load(panel[g * kPanelBlocks].scale[half]);
#pragma GCC unroll 8
          for (int r = 0; r < Rows; ++r) {
            const QuantizedBlock& x = input[static_cast<size_t>(r) * stride];
            sums[g][r] = AddScaled(integers[g][r], scale, x, sums[g][r]);
            if constexpr (Format::kHasMin) {
              sums[g][r] = Simd::Fma(Simd::Load(panel[g * kPanelBlocks].min),
                                     Simd::Set(x.scaled_sum), sums[g][r]);
            }
          }
        }
      }
    }
  }

  // Multiplies `Rows` rows with the panel of blocks [first, first + count) of groups
  // [group, group + Groups).
  template <int Rows, int Groups>
  [[gnu::noinline]] static void PanelRows(const ProductArgs& args, int row, int group, int first,
                                          int count) {
    const size_t stride = static_cast<size_t>(args.block_stride);
    using Tile = ProductTile<Simd, Rows, Groups>;
    typename Tile::Sums sums;
    Lanes* saved = args.sums + static_cast<size_t>(row) * Groups;
    Tile::Load(saved, first == 0, sums);
    PanelTile<Rows, Groups>(args.panel, count,
                            args.blocks + static_cast<size_t>(row) * stride + first, stride, sums);
    if (first + count == args.columns / kQuantBlock) {
      Tile::Finish(args, row, group, sums);
    } else {
      Tile::Save(sums, saved);
    }
  }

  template <int Groups>
  static void Panels(const ProductArgs& args, int group) {
    const int blocks = args.columns / kQuantBlock;
    const int panels = (blocks + kPanelBlocks - 1) / kPanelBlocks;
    // Panels get about the same length, because a short last panel would cost most.
    const int most = (blocks + panels - 1) / panels;
    NextGroups next(args, group, Groups, args.rows / Simd::kTileRows * panels);
    for (int first = 0; first < blocks; first += most) {
      const int count = blocks - first < most ? blocks - first : most;
      for (int g = 0; g < Groups; ++g) {
        Unpack(args.weight + static_cast<size_t>(group + g) * args.group_bytes, first, count,
               args.panel + g * kPanelBlocks);
      }
      const auto tile = [&](auto rows, int row) __attribute__((always_inline)) {
        next.PrefetchSome();
        PanelRows<rows(), Groups>(args, row, group, first, count);
      };
      if (args.terms == 2) {  // the two terms of a row stay in one tile
        ForTiles<Simd::kTileRows & ~1>(args.rows, tile);
      } else {
        ForTiles<Simd::kTileRows>(args.rows, tile);
      }
    }
  }

  // Computes the outputs of groups [begin, end).
  static void Run(const ProductArgs& args, int begin, int end) {
    if (args.rows <= kMaxDirectRows) {
      for (int group = begin; group < end; ++group) {
        ForTilesAndRest<Simd::kDirectTileRows>(
            args.rows, [&](auto rows, int row) { DirectRows<rows()>(args, row, group); });
      }
      return;
    }
    int group = begin;
    for (; group + Simd::kTileGroups <= end; group += Simd::kTileGroups) {
      Panels<Simd::kTileGroups>(args, group);
    }
    for (; group < end; ++group) Panels<1>(args, group);
  }
};

}  // namespace baton
