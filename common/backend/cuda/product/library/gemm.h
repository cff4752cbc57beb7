// Matrix products of many rows by the device's library: out = in x weight^T, float32 sums.
//
// There are two implementations, chosen by linking: gemm_cublaslt.cc (cuBLASLt, loaded at run time,
// so that a program starts without it), and plain loops for tests without a device
// (tests/support/cuda_shim/gemm_reference.cc). Inputs and outputs are row-major; sums are float32
// (CUBLAS_COMPUTE_32F: the tensor cores for F16 and BF16, no TF32 for F32). The library's algorithm
// depends on the number of rows, and so do the last bits of the results.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/backend/cuda/device/operands.h"

namespace baton {

// Belongs to the device that is current when it is made. Thread rule: one thread at a time, and
// products on one stream only, because they share the workspace.
class Gemm {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;
  // Shapes whose algorithm is remembered. Beyond them, the least recently used is looked up anew.
  static constexpr size_t kMaxShapes = 256;

  // NOT_FOUND says where the library was searched. RESOURCE_EXHAUSTED: there is no memory for the
  // workspace.
  static absl::StatusOr<std::unique_ptr<Gemm>> Create();
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  struct Product {
    const void* in = nullptr;  // [rows, weight.columns], of the weight's element type, no padding
    int rows = 0;
    CudaMatrix weight;        // [outputs, columns]
    float* out = nullptr;     // [rows, outputs]
    int out_stride = 0;       // floats from one row of out to the next, at least `outputs`
    bool accumulate = false;  // out += scale * the product, instead of out =
    float scale = 1;          // 1 unless `accumulate`
  };
  // Enqueues the product. UNIMPLEMENTED if the library has no algorithm for the shape; other
  // errors carry the library's own words. REQUIRES: rows > 0, device memory, `in` aligned to its
  // elements.
  absl::Status Multiply(const Product& product, cudaStream_t stream);

 private:
  struct Rep;
  explicit Gemm(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
