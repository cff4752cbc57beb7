#include "common/backend/cuda/product/library/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "common/backend/cuda/product/library/weight_product.h"
#include "common/base/float_types.h"
#include "tests/common/backend/cuda/product/test_matrix.h"
#include "tests/support/cuda_shim/device_array.h"

namespace baton {
namespace {

// Random elements, on the device and as their values.
struct Input {
  Input(CudaElement element, int count, std::mt19937& random)
      : device(Fill(element, count, random)) {}

  std::vector<uint8_t> Fill(CudaElement element, int count, std::mt19937& random) {
    std::normal_distribution<float> normal(0, 1);
    const size_t size = ElementBytes(element);
    std::vector<uint8_t> bytes(static_cast<size_t>(count) * size);
    for (size_t i = 0; i < bytes.size(); i += size) {
      const float value = normal(random);
      if (element == CudaElement::kF32) {
        std::memcpy(&bytes[i], &value, size);
        values.push_back(value);
        continue;
      }
      const bool f16 = element == CudaElement::kF16;
      const uint16_t bits = f16 ? F32ToF16(value) : F32ToBf16(value);
      std::memcpy(&bytes[i], &bits, size);
      values.push_back(f16 ? F16ToF32(bits) : Bf16ToF32(bits));
    }
    return bytes;
  }

  std::vector<double> values;
  DeviceArray<uint8_t> device;
};

float Rounded(float value, CudaElement element) {
  if (element == CudaElement::kF16) return F16ToF32(F32ToF16(value));
  return element == CudaElement::kBf16 ? Bf16ToF32(F32ToBf16(value)) : value;
}

// Checks out = in x weight^T, then out += in x weight^T. Between the rows of out lie 5 floats that
// must not be touched.
void ExpectProducts(const TestElement& type, CudaElement in_element, int rows, int columns,
                    int outputs, size_t scratch_rows, std::mt19937& random) {
  auto gemm = Gemm::Create();
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  const int stride = outputs + 5;
  const TestMatrix weight(type, outputs, columns, random);
  const Input in(in_element, rows * columns, random);
  const DeviceArray<float> out(std::vector<float>(static_cast<size_t>(rows * stride), 0.5f));
  const DeviceArray<uint8_t> scratch(
      std::vector<uint8_t>(scratch_rows * CudaRowBytes(in_element, columns)));
  for (const bool accumulate : {false, true}) {
    const absl::Status status = MultiplyWeight(
        **gemm,
        {.in = in.device.data(),
         .rows = rows,
         .weight = weight.Matrix(),
         .out = out.data(),
         .out_stride = stride,
         .accumulate = accumulate},
        in_element, {scratch.data(), scratch_rows * CudaRowBytes(in_element, columns)}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<float> results = out.Download();
    const double times = accumulate ? 2 : 1;
    for (int row = 0; row < rows; ++row) {
      for (int n = 0; n < outputs; ++n) {
        double expected = 0;
        double size = 0;
        for (int k = 0; k < columns; ++k) {
          const double product = in.values[static_cast<size_t>(row * columns + k)] *
                                 double{Rounded(weight.Value(n, k), in_element)};
          expected += product;
          size += std::fabs(product);
        }
        ASSERT_NEAR(results[static_cast<size_t>(row * stride + n)], times * expected,
                    times * size * 2e-6)
            << "row " << row << ", output " << n;
      }
      for (int n = outputs; n < stride; ++n) {
        ASSERT_EQ(results[static_cast<size_t>(row * stride + n)], 0.5f);
      }
    }
  }
}

TEST(Gemm, IsTheProductWithFloat32Sums) {
  std::mt19937 random(1);
  for (const TestElement& type : kFloatElements) {
    for (const int columns : {64, 72, 131}) {
      for (const int rows : {16, 45}) {
        ExpectProducts(type, type.element, rows, columns, columns / 2, 1, random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Gemm, MultipliesQuantisedWeightsInPartsOfTheirRows) {
  std::mt19937 random(2);
  for (const TestElement& type : kQuantisedElements) {
    for (const TestElement& in : kFloatElements) {
      for (const size_t scratch_rows : {7, 100}) {  // in 3 slices of rows, and all at once
        ExpectProducts(type, in.element, 17, 256, 19, scratch_rows, random);
        if (HasFatalFailure()) return;
      }
    }
  }
  ExpectProducts(kQuantisedElements[1], CudaElement::kBf16, 16, 32, 700, 300, random);
}

}  // namespace
}  // namespace baton
