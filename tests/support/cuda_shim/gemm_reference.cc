// Gemm in plain loops on the host, for tests without a device.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/backend/cuda/product/library/gemm.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "common/base/check.h"
#include "common/base/float_types.h"
#include "tests/support/cuda_shim/device_memory.h"
#include "tests/support/cuda_shim/host_functions.h"
#include "tests/support/cuda_shim/streams.h"

namespace baton {
namespace {

void Widen(CudaElement element, const uint8_t* from, size_t count, float* to) {
  BATON_CHECK(!IsQuantised(element), "the element must be a float type");
  if (element == CudaElement::kF32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof(bits));
    to[i] = element == CudaElement::kF16 ? F16ToF32(bits) : Bf16ToF32(bits);
  }
}

float Dot(const std::vector<float>& a, const float* b) {
  float sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

void MultiplyNow(const Gemm::Product& product) {
  const CudaMatrix& weight = product.weight;
  const size_t columns = static_cast<size_t>(weight.columns);
  const size_t rows = static_cast<size_t>(product.rows);
  std::vector<float> in(rows * columns);
  Widen(weight.element, static_cast<const uint8_t*>(product.in), rows * columns, in.data());
  std::vector<float> weight_row(columns);
  const size_t row_bytes = CudaRowBytes(weight.element, weight.columns);
  for (int n = 0; n < weight.rows; ++n) {
    Widen(weight.element,
          static_cast<const uint8_t*>(weight.data) + static_cast<size_t>(n) * row_bytes, columns,
          weight_row.data());
    for (size_t row = 0; row < rows; ++row) {
      float& out =
          product.out[row * static_cast<size_t>(product.out_stride) + static_cast<size_t>(n)];
      const float sum = Dot(weight_row, &in[row * columns]);
      out = product.accumulate ? std::fma(product.scale, sum, out) : sum;
    }
  }
}

}  // namespace

struct Gemm::Rep {};

Gemm::Gemm(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
Gemm::~Gemm() = default;

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create() {
  if (!cuda_shim::TheMachine().has_library) {
    return absl::NotFoundError("this machine has no libcublasLt.so");
  }
  return std::unique_ptr<Gemm>(new Gemm(std::make_unique<Rep>()));
}

absl::Status Gemm::Multiply(const Product& product, cudaStream_t stream) {
  BATON_CHECK(product.rows > 0 && product.out_stride >= product.weight.rows, "rows of the product");
  cuda_shim::Enqueue(stream, [product] {
    const cuda_shim::DeviceAccess access;
    MultiplyNow(product);
  });
  return absl::OkStatus();
}

}  // namespace baton
