// The activations of products: normalised or gated on the way in, then quantised or left as floats.
//
//   kPlain   x = in
//   kNorm    x = in * (1 / sqrt(mean(in^2) + epsilon)) * gain, left to right; the squares are
//            summed in 16 lanes (lanes.h)
//   kGated   with g = in and u = other,
//     kSilu         x = g / (1 + exp(-g)) * u
//     kGeluTanh     x = g / (1 + exp(g * fma(g * g, a * 0.044715, a))) * u, a = -2 sqrt(2 / pi):
//                   g / (1 + exp(-2 y)) is g / 2 * (1 + tanh(y))
//     kClampedSilu  x = g' / (1 + exp(-1.702 * g')) * (u' + 1), g' = min(g, 7),
//                   u' = max(-7, min(u, 7))
// Quantised inputs have blocks of 32 columns: scale = max|x| * (1 / 127), value = x * (127 /
// max|x|) rounded to the nearest even integer, in [-127, 127]. A block whose maximum is below
// 2^-100 is zero. With two terms, the second one quantises in the same way what the first left
// over, fma(-value, scale, x).
#pragma once

#include <cstdint>
#include <vector>

#include "common/backend/backend.h"
#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cpu/product/packed_weight.h"
#include "common/backend/cpu/simd/lanes.h"
#include "common/backend/tensor.h"

namespace baton {

struct CpuKernels;

// The floats, and the blocks, from one row of a prepared input to the next. Rows that begin a
// multiple of 4 KiB apart meet in the same few sets of the first cache, where those of a product's
// tile push one another out. So a cache line is left between them.
constexpr int FloatStride(int columns) { return columns % 1024 == 0 ? columns + kLanes : columns; }
constexpr int BlockStride(int columns) {
  return columns / kQuantBlock + (columns % 2048 == 0 ? 1 : 0);
}

// 32 columns of a row, quantised; one cache line.
struct alignas(64) QuantizedBlock {
  int8_t values[kQuantBlock];
  float scale;
  float scaled_sum;      // scale * the sum of the values
  int32_t negative_sum;  // minus the sum of the values
  // Minus 2^kQ6KOffsetBits times the sums of the first and the second 16 values: what takes the
  // offset out of Q6_K's integers. No other type has a scale for half a block.
  int32_t half_starts[2];
};

// The input of one operation; all memory is borrowed.
struct ProductInputArgs {
  enum class Kind { kPlain, kNorm, kGated };
  Kind kind = Kind::kPlain;
  GateFunction function = GateFunction::kSilu;  // kGated only
  Tensor in;                                    // [rows, columns]
  const float* other = nullptr;      // kNorm: the gain [columns]; kGated: [rows, columns]
  float epsilon = 0;                 // kNorm only
  int terms = 1;                     // terms of the quantised values, 1 or 2
  QuantizedBlock* blocks = nullptr;  // [rows, terms, block_stride], or null
  int block_stride = 0;              // at least the columns / 32
  float* floats = nullptr;           // [rows, float_stride], or null
  int float_stride = 0;              // at least the columns
};

// Some rows of a prepared input; borrowed.
struct ProductRows {
  int rows = 0;
  int terms = 1;
  const QuantizedBlock* blocks = nullptr;  // [rows, terms, block_stride], or null
  int block_stride = 0;                    // at least the columns / 32
  const float* floats = nullptr;           // [rows, float_stride], or null
  int float_stride = 0;                    // at least the columns
};

// The prepared input of a product. It grows to the largest product and is used again for the next.
class ProductInput {
 public:
  // Prepares the input in blocks if `quantised`, as floats if `floats`. Sets args.blocks,
  // args.floats and their strides itself. REQUIRES: if quantised, the columns are a multiple of 32.
  void Prepare(const CpuKernels& kernels, ThreadPool& pool, ProductInputArgs args, bool quantised,
               bool floats);

  // `count` rows from `first` on, until the next Prepare.
  ProductRows Rows(int first, int count) const;

  int rows() const { return rows_; }
  int columns() const { return columns_; }
  int terms() const { return terms_; }
  const QuantizedBlock* blocks() const { return blocks_.data(); }  // [rows, terms, block_stride()]
  int block_stride() const { return BlockStride(columns_); }
  const float* floats() const { return floats_; }  // [rows, float_stride()]
  int float_stride() const { return float_stride_; }

 private:
  int rows_ = 0;
  int columns_ = 0;
  int terms_ = 1;
  bool quantised_ = false;         // whether blocks_ holds the input
  const float* floats_ = nullptr;  // borrowed: the input itself if nothing has to be done to it
  int float_stride_ = 0;
  std::vector<QuantizedBlock> blocks_;
  std::vector<float> float_storage_;
};

}  // namespace baton
