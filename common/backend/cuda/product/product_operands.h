// The inputs and outputs of a product, for all kernels.
#pragma once

#include <cstddef>

#include "common/backend/cuda/device/operands.h"
#include "common/backend/gate_function.h"
#include "common/backend/tensor.h"

namespace baton {

inline constexpr int kMaxVectorOutputs = 3;  // outputs that one launch takes

// A product's input, in device memory. Every matrix begins at a multiple of 16 bytes.
struct VectorInput {
  enum class Kind { kPlain, kNorm, kGated };
  Kind kind = Kind::kPlain;
  Tensor in;                     // [rows, columns]
  const float* other = nullptr;  // kNorm: the gain [columns]; kGated: the up [rows, columns]
  float epsilon = 0;             // kNorm only
  GateFunction function = GateFunction::kSilu;  // kGated only
};

struct VectorOutput {
  CudaMatrix weight;        // [outputs, columns], rows padded with zeros (weight_layout.h)
  Tensor out;               // [rows, outputs]
  bool accumulate = false;  // out += scale * the product, instead of out =
  float scale = 1;          // 1 unless `accumulate`
};

// The device's limits that a launch is fitted to. No bit of a result depends on them, but of tile_product.h.
struct DeviceLimits {
  int multiprocessors = 0;
  size_t shared_bytes = 0;  // the most shared memory that a thread block may ask for
};

}  // namespace baton
