#include "common/backend/cpu/product.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/base/float_types.h"

namespace baton {
namespace {

// Rows that share a pass over a group's weights.
constexpr int kRowTile = 4;

// Lanes of integers, as the compiler's own vectors: it keeps them in registers, as it does not keep
// arrays.
using Int16Lanes [[gnu::vector_size(32)]] = int16_t;
using Uint16Lanes [[gnu::vector_size(32)]] = uint16_t;
using Int32Lanes [[gnu::vector_size(64)]] = int32_t;
using FloatLanes [[gnu::vector_size(64)]] = float;

struct ProductArgs {
  Tensor in;
  const QuantizedRows* quantised;
  const CpuWeight* weight;
  Tensor out;
};

// The outputs of one group for `Rows` rows from `row` on.
template <int Rows>
[[gnu::always_inline]] inline void StoreGroup(const ProductArgs& args, int row, int group,
                                              const Lanes (&sums)[Rows]) {
  const int first = group * kLanes;
  const int count = std::min(kLanes, args.out.columns - first);
  for (int r = 0; r < Rows; ++r) {
    std::memcpy(args.out.Row(row + r) + first, sums[r].v, static_cast<size_t>(count) * 4);
  }
}

// Integer sums of a block of nibbles: sixteen products of at most 15 * 127 fit into 16 bits.
template <int Rows, class Block>
[[gnu::always_inline]] inline void NibbleSums(const Block& block, const int16_t* const (&x)[Rows],
                                              Int32Lanes (&sums)[Rows]) {
  Int16Lanes low[Rows] = {};   // columns 0..15
  Int16Lanes high[Rows] = {};  // columns 16..31
  for (int k = 0; k < 8; ++k) {
    Uint16Lanes codes;
    std::memcpy(&codes, block.codes[k], sizeof(codes));
    const Int16Lanes w0 = (Int16Lanes)(codes & 15);
    const Int16Lanes w1 = (Int16Lanes)((codes >> 4) & 15);
    const Int16Lanes w2 = (Int16Lanes)((codes >> 8) & 15);
    const Int16Lanes w3 = (Int16Lanes)(codes >> 12);
    for (int r = 0; r < Rows; ++r) {
      low[r] += w0 * x[r][k];
      high[r] += w2 * x[r][k + 16];
      low[r] += w1 * x[r][k + 8];
      high[r] += w3 * x[r][k + 24];
    }
  }
  for (int r = 0; r < Rows; ++r) {
    sums[r] =
        __builtin_convertvector(low[r], Int32Lanes) + __builtin_convertvector(high[r], Int32Lanes);
  }
}

// Integer sums of a block of bytes: two products of at most 128 * 127 fit into 16 bits.
template <int Rows>
[[gnu::always_inline]] inline void ByteSums(const Q8_0Block& block, const int16_t* const (&x)[Rows],
                                            Int32Lanes (&sums)[Rows]) {
  for (int r = 0; r < Rows; ++r) sums[r] = Int32Lanes{};
  for (int k = 0; k < 16; ++k) {
    Uint16Lanes codes;
    std::memcpy(&codes, block.codes[k], sizeof(codes));
    const Int16Lanes w0 = (Int16Lanes)(codes & 255) - 128;
    const Int16Lanes w1 = (Int16Lanes)(codes >> 8) - 128;
    for (int r = 0; r < Rows; ++r) {
      sums[r] += __builtin_convertvector(w0 * x[r][k] + w1 * x[r][k + 16], Int32Lanes);
    }
  }
}

template <int Rows>
[[gnu::always_inline]] inline void BlockSums(const Q4_0Block& block,
                                             const int16_t* const (&x)[Rows],
                                             const int32_t* value_sums, int stride,
                                             Int32Lanes (&sums)[Rows]) {
  NibbleSums(block, x, sums);
  for (int r = 0; r < Rows; ++r) sums[r] -= 8 * value_sums[r * stride];
}

template <int Rows>
[[gnu::always_inline]] inline void BlockSums(const Q4_1Block& block,
                                             const int16_t* const (&x)[Rows], const int32_t*, int,
                                             Int32Lanes (&sums)[Rows]) {
  NibbleSums(block, x, sums);
}

template <int Rows>
[[gnu::always_inline]] inline void BlockSums(const Q8_0Block& block,
                                             const int16_t* const (&x)[Rows], const int32_t*, int,
                                             Int32Lanes (&sums)[Rows]) {
  ByteSums(block, x, sums);
}

[[gnu::always_inline]] inline void AddBlock(const Int32Lanes& sum, const float* scale,
                                            float input_scale, Lanes& out) {
  const FloatLanes converted = __builtin_convertvector(sum, FloatLanes);
  Lanes exact;
  std::memcpy(&exact, &converted, sizeof(exact));
  for (int l = 0; l < kLanes; ++l) {
    out.v[l] = __builtin_fmaf(exact.v[l], scale[l] * input_scale, out.v[l]);
  }
}

template <class Block>
struct QuantisedProduct {
  template <int Rows>
  [[gnu::always_inline]] static inline void Tile(const ProductArgs& args, int row, int group) {
    const QuantizedRows& input = *args.quantised;
    const int blocks = input.blocks;
    const Block* weight = args.weight->Group<Block>(group);
    const size_t first = static_cast<size_t>(row) * static_cast<size_t>(blocks);
    Lanes out[Rows];
    for (int r = 0; r < Rows; ++r) out[r] = ZeroLanes();
    for (int b = 0; b < blocks; ++b) {
      const int16_t* x[Rows];
      for (int r = 0; r < Rows; ++r) {
        x[r] = input.values.data() +
               (first + static_cast<size_t>(r * blocks + b)) * static_cast<size_t>(kQuantBlock);
      }
      const float* scales = input.scales.data() + first + static_cast<size_t>(b);
      const int32_t* value_sums = input.sums.data() + first + static_cast<size_t>(b);
      Int32Lanes sums[Rows];
      BlockSums(weight[b], x, value_sums, blocks, sums);
      for (int r = 0; r < Rows; ++r) {
        const float scale = scales[r * blocks];
        AddBlock(sums[r], weight[b].scale, scale, out[r]);
        if constexpr (std::is_same_v<Block, Q4_1Block>) {
          FusedAddScaled(weight[b].min, scale * static_cast<float>(value_sums[r * blocks]), out[r]);
        }
      }
    }
    StoreGroup(args, row, group, out);
  }
};

struct F32Element {
  using Stored = float;
  [[gnu::always_inline]] static inline float Widen(float value) { return value; }
};
struct F16Element {
  using Stored = uint16_t;
  [[gnu::always_inline]] static inline float Widen(uint16_t value) { return F16ToF32(value); }
};
struct Bf16Element {
  using Stored = uint16_t;
  [[gnu::always_inline]] static inline float Widen(uint16_t value) { return Bf16ToF32(value); }
};

template <class Element>
struct FloatProduct {
  template <int Rows>
  [[gnu::always_inline]] static inline void Tile(const ProductArgs& args, int row, int group) {
    const auto* weight = args.weight->Group<typename Element::Stored>(group);
    Lanes out[Rows];
    for (int r = 0; r < Rows; ++r) out[r] = ZeroLanes();
    for (int k = 0; k < args.in.columns; ++k) {
      Lanes w;
      for (int l = 0; l < kLanes; ++l) w.v[l] = Element::Widen(weight[k * kLanes + l]);
      for (int r = 0; r < Rows; ++r) FusedAddScaled(w.v, args.in.Row(row + r)[k], out[r]);
    }
    StoreGroup(args, row, group, out);
  }
};

// All rows of groups [begin, end): a group's weights stay in the first cache while the rows pass.
template <class Product>
struct ProductKernel {
  [[gnu::always_inline]] static inline void Run(const ProductArgs& args, const int& begin,
                                                const int& end) {
    for (int group = begin; group < end; ++group) {
      int row = 0;
      for (; row + kRowTile <= args.in.rows; row += kRowTile) {
        Product::template Tile<kRowTile>(args, row, group);
      }
      for (; row < args.in.rows; ++row) Product::template Tile<1>(args, row, group);
    }
  }
};

void RunGroups(CpuIsa isa, const ProductArgs& args, int begin, int end) {
  switch (args.weight->type()) {
    case GgmlType::kF32:
      return RunOn<ProductKernel<FloatProduct<F32Element>>>(isa, args, begin, end);
    case GgmlType::kF16:
      return RunOn<ProductKernel<FloatProduct<F16Element>>>(isa, args, begin, end);
    case GgmlType::kBf16:
      return RunOn<ProductKernel<FloatProduct<Bf16Element>>>(isa, args, begin, end);
    case GgmlType::kQ4_0:
      return RunOn<ProductKernel<QuantisedProduct<Q4_0Block>>>(isa, args, begin, end);
    case GgmlType::kQ4_1:
      return RunOn<ProductKernel<QuantisedProduct<Q4_1Block>>>(isa, args, begin, end);
    default:  // Q8_0: CpuWeight has no others
      return RunOn<ProductKernel<QuantisedProduct<Q8_0Block>>>(isa, args, begin, end);
  }
}

}  // namespace

void MultiplyWeight(CpuIsa isa, ThreadPool& pool, Tensor in, const QuantizedRows& quantised,
                    const CpuWeight& weight, Tensor out) {
  const ProductArgs args{in, &quantised, &weight, out};
  pool.ParallelFor(weight.groups(), [&](int begin, int end) { RunGroups(isa, args, begin, end); });
}

}  // namespace baton
