// The computation of product_input.h. Only the sources of the kernel tables (kernels.h) include it.
#pragma once

#include <cstddef>
#include <cstring>

#include "common/backend/cpu/product/product_input.h"
#include "common/backend/cpu/simd/exp_kernel.h"
#include "common/backend/cpu/simd/lanes.h"
#include "common/backend/exact_math.h"

namespace baton {

template <class Simd>
struct ProductInputKernel {
  using F = typename Simd::F;

  // Blocks that wait to be quantised together, of whatever rows. A vector then holds one number of
  // each block, and nothing is folded for a single block.
  struct Batch {
    alignas(64) float x[kLanes][kQuantBlock];
    QuantizedBlock* out[kLanes];
    int size = 0;
  };

  [[gnu::always_inline]] static void Quantise(const Batch& batch) {
    F maxima[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      maxima[i] = i < batch.size
                      ? Simd::MaxMagnitude(Simd::Load(batch.x[i]), Simd::Load(batch.x[i] + kLanes))
                      : Simd::Zero();
    }
    Simd::Transpose(maxima);
    F max = maxima[0];
    for (int i = 1; i < kLanes; ++i) max = Simd::MaxMagnitude(max, maxima[i]);
    Lanes scales, inverses;
    Simd::Store(scales.v, max);
    for (int i = 0; i < kLanes; ++i) {
      const bool zero = scales.v[i] < 0x1p-100f;
      inverses.v[i] = (zero ? 0.0f : 127.0f) / (zero ? 1.0f : scales.v[i]);
      scales.v[i] = (zero ? 0.0f : scales.v[i]) * (1.0f / 127.0f);
    }
    F low[kLanes], high[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const F inverse = Simd::Set(inverses.v[i]);
      const auto first = Simd::Round(Simd::Mul(Simd::Load(batch.x[i]), inverse));
      const auto second = Simd::Round(Simd::Mul(Simd::Load(batch.x[i] + kLanes), inverse));
      Simd::StoreNarrow(batch.out[i]->values, first, second);
      low[i] = Simd::FromInt(first);
      high[i] = Simd::FromInt(second);
    }
    // These are sums of integers below 2^24, which are exact in any order.
    Lanes sums[2];
    Simd::Store(sums[0].v, Simd::FoldAll(low));
    Simd::Store(sums[1].v, Simd::FoldAll(high));
    for (int i = 0; i < kLanes; ++i) {
      QuantizedBlock& out = *batch.out[i];
      out.scale = scales.v[i];
      out.scaled_sum = scales.v[i] * (sums[0].v[i] + sums[1].v[i]);
      const int32_t half_sums[2] = {static_cast<int32_t>(sums[0].v[i]),
                                    static_cast<int32_t>(sums[1].v[i])};
      out.negative_sum = -(half_sums[0] + half_sums[1]);
      for (int half = 0; half < 2; ++half) {
        out.half_starts[half] = -half_sums[half] * (1 << kQ6KOffsetBits);
      }
      // Makes the compiler store one block after the other: scatters cost ten times as much.
      asm volatile("" : : : "memory");
    }
  }

  // Quantises the batch: the first term of every block, and with two terms what it left over, which
  // goes `stride` blocks further on.
  [[gnu::noinline]] static void Flush(Batch& batch, int terms, size_t stride) {
    QuantizedBlock nobody;
    for (int i = batch.size; i < kLanes; ++i) {
      std::memset(batch.x[i], 0, sizeof(batch.x[i]));
      batch.out[i] = &nobody;
    }
    Quantise(batch);
    if (terms == 2) {
      for (int i = 0; i < batch.size; ++i) {
        const QuantizedBlock& first = *batch.out[i];
        for (int k = 0; k < kQuantBlock; ++k) {
          batch.x[i][k] =
              __builtin_fmaf(-static_cast<float>(first.values[k]), first.scale, batch.x[i][k]);
        }
        batch.out[i] += stride;
      }
      Quantise(batch);
    }
    batch.size = 0;
  }

  [[gnu::always_inline]] static float SumOfSquares(const float* x, int count) {
    F sums = Simd::Zero();
    int i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const F some = Simd::Load(x + i);
      sums = Simd::Fma(some, some, sums);
    }
    Lanes lanes;
    Simd::Store(lanes.v, sums);
    for (int l = 0; i + l < count; ++l) {
      lanes.v[l] = __builtin_fmaf(x[i + l], x[i + l], lanes.v[l]);
    }
    return FoldLanes(lanes);
  }

  static float InverseNorm(const ProductInputArgs& args, int row) {
    const int columns = args.in.columns;
    const float mean = SumOfSquares(args.in.Row(row), columns) / static_cast<float>(columns);
    return 1.0f / __builtin_sqrtf(mean + args.epsilon);
  }

  // x / (1 + exp(exponent)).
  [[gnu::always_inline]] static F OverOnePlusExp(F x, F exponent) {
    return Simd::Div(x, Simd::Add(Simd::Set(1.0f), ExpLanes<Simd>(exponent)));
  }
  [[gnu::always_inline]] static F Silu(F g) {
    return OverOnePlusExp(g, Simd::Sub(Simd::Zero(), g));
  }
  [[gnu::always_inline]] static F GeluTanh(F g) {
    const F inner =
        Simd::Fma(Simd::Mul(g, g), Simd::Set(kGeluTanhCubic), Simd::Set(kGeluTanhLinear));
    return OverOnePlusExp(g, Simd::Mul(g, inner));
  }
  [[gnu::always_inline]] static F ClampedSilu(F g) {
    const F least = Simd::Min(Simd::Set(kGateClamp), g);
    return OverOnePlusExp(least, Simd::Mul(Simd::Set(-kClampedSiluSlope), least));
  }
  [[gnu::always_inline]] static F ClampedUp(F u) {
    const F clamped = Simd::Max(Simd::Set(-kGateClamp), Simd::Min(Simd::Set(kGateClamp), u));
    return Simd::Add(clamped, Simd::Set(1.0f));
  }

  template <GateFunction kFunction>
  [[gnu::always_inline]] static F Gate(F g, F u) {
    if constexpr (kFunction == GateFunction::kSilu) return Simd::Mul(Silu(g), u);
    if constexpr (kFunction == GateFunction::kGeluTanh) return Simd::Mul(GeluTanh(g), u);
    if constexpr (kFunction == GateFunction::kClampedSilu) {
      return Simd::Mul(ClampedSilu(g), ClampedUp(u));
    }
  }

  template <GateFunction kFunction>
  [[gnu::always_inline]] static void GatedValues(const float* gate, const float* up, int count,
                                                 float* x) {
    int k = 0;
    for (; k + kLanes <= count; k += kLanes) {
      Simd::Store(x + k, Gate<kFunction>(Simd::Load(gate + k), Simd::Load(up + k)));
    }
    if (k == count) return;
    Lanes last_gate = {}, last_up = {};
    for (int l = 0; k + l < count; ++l) {
      last_gate.v[l] = gate[k + l];
      last_up.v[l] = up[k + l];
    }
    Simd::Store(last_gate.v, Gate<kFunction>(Simd::Load(last_gate.v), Simd::Load(last_up.v)));
    for (int l = 0; k + l < count; ++l) x[k + l] = last_gate.v[l];
  }

  // Computes `count` values of the row from `column` on.
  [[gnu::always_inline]] static void Values(const ProductInputArgs& args, int row, int column,
                                            int count, float inverse_norm, float* x) {
    using Kind = ProductInputArgs::Kind;
    const float* in = args.in.Row(row) + column;
    const float* other = args.other;
    int k = 0;
    if (args.kind == Kind::kPlain) {
      std::memcpy(x, in, static_cast<size_t>(count) * sizeof(float));
    } else if (args.kind == Kind::kNorm) {
      other += column;
      const F inverse = Simd::Set(inverse_norm);
      for (; k + kLanes <= count; k += kLanes) {
        Simd::Store(x + k,
                    Simd::Mul(Simd::Mul(Simd::Load(in + k), inverse), Simd::Load(other + k)));
      }
      for (; k < count; ++k) x[k] = in[k] * inverse_norm * other[k];
    } else {
      other += static_cast<size_t>(row) * static_cast<size_t>(args.in.columns) + column;
      switch (args.function) {
        case GateFunction::kSilu:
          return GatedValues<GateFunction::kSilu>(in, other, count, x);
        case GateFunction::kGeluTanh:
          return GatedValues<GateFunction::kGeluTanh>(in, other, count, x);
        case GateFunction::kClampedSilu:
          return GatedValues<GateFunction::kClampedSilu>(in, other, count, x);
      }
    }
  }

  static void RunFloats(const ProductInputArgs& args, int begin, int end) {
    for (int row = begin; row < end; ++row) {
      const bool norm = args.kind == ProductInputArgs::Kind::kNorm;
      Values(args, row, 0, args.in.columns, norm ? InverseNorm(args, row) : 0,
             args.floats + static_cast<size_t>(row) * static_cast<size_t>(args.float_stride));
    }
  }

  static void Run(const ProductInputArgs& args, int begin, int end) {
    if (args.blocks == nullptr) return RunFloats(args, begin, end);
    const int columns = args.in.columns;
    const size_t stride = static_cast<size_t>(args.block_stride);
    Batch batch;
    for (int row = begin; row < end; ++row) {
      const bool norm = args.kind == ProductInputArgs::Kind::kNorm;
      const float inverse_norm = norm ? InverseNorm(args, row) : 0;
      QuantizedBlock* out = args.blocks + static_cast<size_t>(row * args.terms) * stride;
      for (int column = 0; column < columns; column += kQuantBlock, ++out) {
        float* x = batch.x[batch.size];
        Values(args, row, column, kQuantBlock, inverse_norm, x);
        if (args.floats != nullptr) {
          std::memcpy(args.floats +
                          static_cast<size_t>(row) * static_cast<size_t>(args.float_stride) +
                          column,
                      x, sizeof(batch.x[0]));
        }
        batch.out[batch.size++] = out;
        if (batch.size == kLanes) Flush(batch, args.terms, stride);
      }
    }
    if (batch.size > 0) Flush(batch, args.terms, stride);
  }
};

}  // namespace baton
