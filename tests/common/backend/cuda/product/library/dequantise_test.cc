#include "common/backend/cuda/product/library/dequantise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "common/backend/cuda/pass/embed.h"
#include "common/base/float_types.h"
#include "tests/common/backend/cuda/product/test_matrix.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {
namespace {

constexpr int kRows = 9;
constexpr int kColumns = 4608;  // more than a block has in one turn, and no multiple of that

using Dequantise = EveryFiberOrder;
INSTANTIATE_TEST_SUITE_P(Orders, Dequantise, testing::ValuesIn(cuda_shim::kAllFiberOrders));

TEST_P(Dequantise, GivesTheValuesThatTheCpuBackendSees) {
  std::mt19937 random(1);
  for (const TestElement& element : kQuantisedElements) {
    const TestMatrix weight(element, kRows, kColumns, random);
    constexpr int kFirst = 2;
    constexpr int kCount = 5;
    const DeviceArray<float> f32(std::vector<float>(kCount * kColumns));
    const DeviceArray<uint16_t> f16(std::vector<uint16_t>(kCount * kColumns));
    const DeviceArray<uint16_t> bf16(std::vector<uint16_t>(kCount * kColumns));
    LaunchDequantise(weight.Matrix(), kFirst, kCount, CudaElement::kF32, f32.data(), nullptr);
    LaunchDequantise(weight.Matrix(), kFirst, kCount, CudaElement::kF16, f16.data(), nullptr);
    LaunchDequantise(weight.Matrix(), kFirst, kCount, CudaElement::kBf16, bf16.data(), nullptr);
    const std::vector<float> f32_values = f32.Download();
    const std::vector<uint16_t> f16_values = f16.Download();
    const std::vector<uint16_t> bf16_values = bf16.Download();
    for (size_t i = 0; i < f32_values.size(); ++i) {
      const float expected = weight.values()[kFirst * kColumns + i];
      ASSERT_EQ(f32_values[i], expected) << GgmlTypeName(element.type) << " " << i;
      // As values: the sign of a zero is not kept.
      ASSERT_EQ(F16ToF32(f16_values[i]), F16ToF32(F32ToF16(expected)));
      ASSERT_EQ(Bf16ToF32(bf16_values[i]), Bf16ToF32(F32ToBf16(expected)));
    }
  }
}

// The values of MXFP4, from the definition: a sign, a magnitude, and a power of two for 32 columns.
TEST_P(Dequantise, GivesEveryCodeOfMxfp4AtEveryExponent) {
  constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  constexpr int kExponents = 255;
  constexpr int kBlock = 32;
  std::vector<uint8_t> file;
  std::vector<float> expected;
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    file.push_back(static_cast<uint8_t>(exponent));
    // Neighbours have different signs.
    for (int j = 0; j < 16; ++j) {
      file.push_back(static_cast<uint8_t>(j * 7 % 16 | (15 - j * 7 % 16) << 4));
    }
    for (int k = 0; k < kBlock; ++k) {
      const int code = k < 16 ? k * 7 % 16 : 15 - (k - 16) * 7 % 16;
      const float magnitude = kMagnitudes[code % 8];
      expected.push_back(std::ldexp(code > 8 ? -magnitude : magnitude, exponent - 127));
    }
  }
  const DeviceArray<uint8_t> weight(LaidOut(CudaElement::kMxfp4, file, kExponents, kBlock));
  const DeviceArray<float> out(expected.size());
  LaunchDequantise({weight.data(), CudaElement::kMxfp4, kExponents, kBlock}, 0, kExponents,
                   CudaElement::kF32, out.data(), nullptr);
  const std::vector<float> values = out.Download();
  EXPECT_EQ(std::memcmp(values.data(), expected.data(), expected.size() * sizeof(float)), 0);
}

TEST_P(Dequantise, LooksRowsUp) {
  std::mt19937 random(2);
  for (const TestElement& element : kQuantisedElements) {
    const TestMatrix table(element, kRows, kColumns, random);
    const std::vector<int32_t> ids = {8, 0, 3, 3};
    const DeviceArray<int32_t> device_ids(ids);
    const DeviceArray<float> out(std::vector<float>(ids.size() * kColumns));
    LaunchDequantiseRows(table.Matrix(), device_ids.data(), {out.data(), 4, kColumns}, nullptr);
    const std::vector<float> values = out.Download();
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = static_cast<size_t>(ids[i / kColumns]);
      ASSERT_EQ(values[i], table.values()[row * kColumns + i % kColumns]);
    }
  }
}

// The tables have rows that are padded to 16 bytes, and quantised rows.
TEST_P(Dequantise, IsHowAnEmbeddingReadsATable) {
  std::mt19937 random(3);
  for (const TestElement& element : kTestElements) {
    const int columns = WholeBlocks(element, 37);
    const TestMatrix table(element, kRows, columns, random);
    const std::vector<int32_t> ids = {5, 8, 0};
    const DeviceArray<int32_t> device_ids(ids);
    const DeviceArray<float> out(ids.size() * static_cast<size_t>(columns));
    LaunchEmbed(table.Matrix(), device_ids.data(), {out.data(), 3, columns}, nullptr);
    const std::vector<float> values = out.Download();
    for (int row = 0; row < 3; ++row) {
      for (int k = 0; k < columns; ++k) {
        ASSERT_EQ(values[static_cast<size_t>(row * columns + k)],
                  table.Value(ids[static_cast<size_t>(row)], k))
            << GgmlTypeName(element.type);
      }
    }
  }
}

}  // namespace
}  // namespace baton
