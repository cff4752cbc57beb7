// The computation of product_input.h. Included by the sources of the kernel tables only
// (kernels.h).
#pragma once

#include <cstddef>

#include "common/backend/cpu/lanes.h"
#include "common/backend/cpu/product_input.h"
#include "common/backend/exact_math.h"

namespace baton {

template <class Simd>
struct ProductInputKernel {
  [[gnu::always_inline]] static void Quantise(const float* x, QuantizedBlock& out) {
    const auto low = Simd::Load(x);
    const auto high = Simd::Load(x + kLanes);
    const float max = Simd::MaxMagnitude(low, high);
    const bool zero = max < 0x1p-100f;
    const auto inverse = Simd::Set(zero ? 0.0f : 127.0f / max);
    out.scale = zero ? 0.0f : max * (1.0f / 127.0f);
    int32_t sums[2];
    Simd::StoreRounded(out.values, Simd::Mul(low, inverse), Simd::Mul(high, inverse), sums);
    out.negative_sums[0] = -sums[0];
    out.negative_sums[1] = -sums[1];
    out.negative_sum = -(sums[0] + sums[1]);
    out.scaled_sum = out.scale * static_cast<float>(-out.negative_sum);
  }

  [[gnu::always_inline]] static void QuantiseRest(const float* x, const QuantizedBlock& first,
                                                  QuantizedBlock& out) {
    float rest[kQuantBlock];
    for (int k = 0; k < kQuantBlock; ++k) {
      rest[k] = __builtin_fmaf(-static_cast<float>(first.values[k]), first.scale, x[k]);
    }
    Quantise(rest, out);
  }

  [[gnu::always_inline]] static float SumOfSquares(const float* x, int count) {
    auto sums = Simd::Zero();
    int i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const auto some = Simd::Load(x + i);
      sums = Simd::Fma(some, some, sums);
    }
    Lanes lanes;
    Simd::Store(lanes.v, sums);
    for (int l = 0; i + l < count; ++l) {
      lanes.v[l] = __builtin_fmaf(x[i + l], x[i + l], lanes.v[l]);
    }
    return FoldLanes(lanes);
  }

  // `count` values of the row from `column` on.
  [[gnu::always_inline]] static void Values(const ProductInputArgs& args, int row, int column,
                                            int count, float inverse_norm, float* x) {
    using Kind = ProductInputArgs::Kind;
    const size_t columns = static_cast<size_t>(args.in.columns);
    const float* in = args.in.data + static_cast<size_t>(row) * columns + column;
    if (args.kind == Kind::kNorm) {
      for (int k = 0; k < count; ++k) x[k] = in[k] * inverse_norm * args.other[column + k];
    } else if (args.kind == Kind::kSwiGlu) {
      const float* other = args.other + static_cast<size_t>(row) * columns + column;
      for (int k = 0; k < count; ++k) x[k] = SiluF(in[k]) * other[k];
    } else {
      for (int k = 0; k < count; ++k) x[k] = in[k];
    }
  }

  static void Run(const ProductInputArgs& args, int begin, int end) {
    const int columns = args.in.columns;
    const size_t blocks = static_cast<size_t>(columns / kQuantBlock);
    for (int row = begin; row < end; ++row) {
      const size_t start = static_cast<size_t>(row) * static_cast<size_t>(columns);
      float inverse_norm = 0;
      if (args.kind == ProductInputArgs::Kind::kNorm) {
        const float* in = args.in.data + start;
        const float mean = SumOfSquares(in, columns) / static_cast<float>(columns);
        inverse_norm = 1.0f / __builtin_sqrtf(mean + args.epsilon);
      }
      size_t block = static_cast<size_t>(row * args.terms) * blocks;
      for (int column = 0; column < columns; column += kQuantBlock, ++block) {
        alignas(64) float x[kQuantBlock];
        const int rest = columns - column;
        if (rest >= kQuantBlock) {
          Values(args, row, column, kQuantBlock, inverse_norm, x);
        } else {
          Values(args, row, column, rest, inverse_norm, x);
        }
        if (args.floats != nullptr) {
          const int count = rest < kQuantBlock ? rest : kQuantBlock;
          std::memcpy(args.floats + start + column, x, static_cast<size_t>(count) * sizeof(float));
        }
        if (args.blocks == nullptr) continue;
        Quantise(x, args.blocks[block]);
        if (args.terms == 2) QuantiseRest(x, args.blocks[block], args.blocks[block + blocks]);
      }
    }
  }
};

}  // namespace baton
