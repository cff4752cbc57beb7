// Loops that reach a limit of the machine: memory read in order, and arithmetic that stays in
// registers. Only the sources of the kernel tables (kernels.h) include it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/cpu/peaks.h"
#include "common/backend/cpu/product/packed_weight.h"
#include "common/backend/cpu/simd/lanes.h"

namespace baton {

template <class Simd>
struct PeakKernels {
  using F = typename Simd::F;
  using I = typename Simd::I;
  using Bytes = typename Simd::Bytes;

  static constexpr size_t kPrefetchBytes = 4096;

  // Reads `bytes` bytes of floats and returns a value of all of them. REQUIRES: `bytes` is a
  // multiple of 256.
  static float Read(const uint8_t* data, size_t bytes) {
    const float* floats = reinterpret_cast<const float*>(data);
    F sums[4] = {Simd::Zero(), Simd::Zero(), Simd::Zero(), Simd::Zero()};
    for (size_t i = 0; i < bytes / sizeof(float); i += 4 * kLanes) {
      for (size_t line = 0; line < 4; ++line) {
        const float* at = floats + i + line * kLanes;
        __builtin_prefetch(reinterpret_cast<const uint8_t*>(at) + kPrefetchBytes);
        sums[line] = Simd::Add(sums[line], Simd::Load(at));
      }
    }
    return First(Simd::Add(Simd::Add(sums[0], sums[1]), Simd::Add(sums[2], sums[3])));
  }

  // A product's tile of 16-output groups and rows, `blocks` blocks of 32 columns deep, with weights
  // and inputs that never change. Each block and 16 outputs take 8 dots, and the scaling of kMix.
  // The integers go on from block to block, so that the compiler can use no result twice.
  template <PeakMix kMix>
  static float IntegerProduct(int64_t blocks) {
    constexpr int kGroups = Simd::kTileGroups;
    constexpr int kRows = Simd::kTileRows;
    constexpr int kParts = kMix == kTwoScales ? 2 : 1;
    uint8_t bytes[64];
    for (int i = 0; i < 64; ++i) bytes[i] = static_cast<uint8_t>(i % 16);
    const Bytes codes = Simd::LoadBytes(bytes);
    const Bytes quad = Simd::SetQuad(reinterpret_cast<const int8_t*>(bytes));
    const F scale = Simd::Set(0x1p-20f);
    const F input_scale = Simd::Set(0x1p-21f);
    I integers[kGroups][kRows];
    F sums[kGroups][kRows];
    for (int g = 0; g < kGroups; ++g) {
      for (int r = 0; r < kRows; ++r) {
        integers[g][r] = Simd::SetInt(r * kGroups + g);  // equal values would be computed once
        sums[g][r] = Simd::Zero();
      }
    }
    for (int64_t b = 0; b < blocks; ++b) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
        for (int q = 0; q < kQuads / kParts; ++q) {
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
            for (int g = 0; g < kGroups; ++g) {
              integers[g][r] = Simd::template Dot<false>(integers[g][r], codes, quad);
            }
          }
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
          for (int g = 0; g < kGroups; ++g) {
            const F scaled = Simd::Mul(Simd::FromInt(integers[g][r]), input_scale);
            sums[g][r] = Simd::Fma(scaled, scale, sums[g][r]);
            if constexpr (kMix == kScaleAndMin) {
              sums[g][r] = Simd::Fma(scale, input_scale, sums[g][r]);
            }
          }
        }
      }
    }
    F total = Simd::Zero();
    for (int g = 0; g < kGroups; ++g) {
      for (int r = 0; r < kRows; ++r) total = Simd::Add(total, sums[g][r]);
    }
    return First(total);
  }
  static constexpr double kIntegerOpsPerBlock =
      2.0 * kQuantBlock * kLanes * Simd::kTileGroups * Simd::kTileRows;

  // A tile of float products, `columns` columns deep, with an FMA per column and 16 outputs.
  static float FloatProduct(int64_t columns) {
    F sums[kChains];
    for (int c = 0; c < kChains; ++c) sums[c] = Simd::Set(static_cast<float>(c));
    const F weight = Simd::Set(0x1p-3f);
    const F input = Simd::Set(0x1p-5f);
    for (int64_t k = 0; k < columns; ++k) {
#pragma GCC unroll 16
      for (int c = 0; c < kChains; ++c) sums[c] = Simd::Fma(weight, input, sums[c]);
    }
    F total = Simd::Zero();
    for (int c = 0; c < kChains; ++c) total = Simd::Add(total, sums[c]);
    return First(total);
  }
  // Enough chains to hide the latency of an FMA, few enough for the registers.
  static constexpr int kChains = Simd::kTileGroups * Simd::kTileRows >= 8 ? 12 : 6;
  static constexpr double kFloatOpsPerColumn = 2.0 * kLanes * kChains;

  [[gnu::always_inline]] static float First(F a) {
    float lanes[kLanes];
    Simd::Store(lanes, a);
    return lanes[0];
  }
};

template <class Simd>
constexpr PeakLoops MakePeakLoops() {
  using Kernels = PeakKernels<Simd>;
  return {.read = &Kernels::Read,
          .integer_product = {&Kernels::template IntegerProduct<kScaleOnly>,
                              &Kernels::template IntegerProduct<kScaleAndMin>,
                              &Kernels::template IntegerProduct<kTwoScales>},
          .integer_ops_per_block = Kernels::kIntegerOpsPerBlock,
          .float_product = &Kernels::FloatProduct,
          .float_ops_per_column = Kernels::kFloatOpsPerColumn};
}

}  // namespace baton
