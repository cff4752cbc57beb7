#include "common/backend/cuda/product/product_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "common/backend/cpu/kernels/kernels.h"
#include "common/backend/cpu/product/product_input.h"
#include "common/base/float_types.h"
#include "tests/common/backend/cuda/product/gate_in_double.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

class ProductInputInOrder : public EveryFiberOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, ProductInputInOrder,
                         testing::ValuesIn(cuda_shim::kAllFiberOrders));

struct InputShape {
  int rows;
  int columns;
  size_t offset;  // floats from a multiple of 16 bytes to the data
  size_t size() const { return static_cast<size_t>(rows * columns); }
};

std::vector<InputShape> Shapes(std::mt19937& random) {
  std::vector<InputShape> shapes = {
      {1, 1, 0},
      {3, 576, 0},
      {2, 2048, 0},
      {2, 1030, 0},
      {1, 260, 1},
      // More columns than the threads of a block keep of a row, by fours and one at a time.
      {1, 8320, 0},
      {1, 2051, 0}};
  for (int i = 0; i < 6; ++i) {
    shapes.push_back({1 + static_cast<int>(random() % 5), 1 + static_cast<int>(random() % 1500),
                      i == 0 ? size_t{1} : size_t{0}});
  }
  return shapes;
}

// The values of a tensor, in host and in device memory.
struct Values {
  Values(const InputShape& of, std::mt19937& random, float scale)
      : shape(of), host(of.size()), device(of.size() + of.offset) {
    std::normal_distribution<float> normal(0, scale);
    for (float& value : host) value = normal(random);
    std::vector<float> padded(shape.offset);
    padded.insert(padded.end(), host.begin(), host.end());
    device.Upload(padded);
  }
  Tensor OnHost() { return {host.data(), shape.rows, shape.columns}; }
  Tensor OnDevice() const { return {device.data() + shape.offset, shape.rows, shape.columns}; }

  InputShape shape;
  std::vector<float> host;
  DeviceArray<float> device;
};

// [rows, columns], without what lies between the rows of the CPU's input.
std::vector<float> OnCpu(ProductInputArgs args) {
  ThreadPool pool(1, {});
  ProductInput input;
  input.Prepare(KernelsFor(CpuIsa::kPortable), pool, args, false, true);
  std::vector<float> values;
  for (int row = 0; row < args.in.rows; ++row) {
    const float* const first = input.floats() + static_cast<ptrdiff_t>(row) * input.float_stride();
    values.insert(values.end(), first, first + args.in.columns);
  }
  return values;
}

// The bits of an F16 that holds the value, or of the largest where a finite value is larger.
uint16_t SaturatedF16(float value) {
  constexpr float kLargest = 65504;
  return F32ToF16(std::isinf(value) ? value : std::clamp(value, -kLargest, kLargest));
}

// Checks launch(element, out) for each element type: it returns the result as floats, having
// compared the other types' results with these floats rounded.
template <class LaunchInto>
std::vector<float> ExpectRoundedAlike(const InputShape& shape, const LaunchInto& launch) {
  const DeviceArray<float> floats(shape.size() + shape.offset);
  launch(CudaElement::kF32, floats.data() + shape.offset);
  std::vector<float> values = floats.Download();
  values.erase(values.begin(), values.begin() + static_cast<ptrdiff_t>(shape.offset));
  for (const CudaElement element : {CudaElement::kF16, CudaElement::kBf16}) {
    const DeviceArray<uint16_t> out(shape.size() + shape.offset);
    launch(element, out.data() + shape.offset);
    const std::vector<uint16_t> bits = out.Download();
    for (size_t i = 0; i < shape.size(); ++i) {
      EXPECT_EQ(bits[shape.offset + i],
                element == CudaElement::kF16 ? SaturatedF16(values[i]) : F32ToBf16(values[i]));
    }
  }
  return values;
}

TEST_P(ProductInputInOrder, NormIsTheCpusWithinAFewUlps) {
  std::mt19937 random(1);
  for (const InputShape& shape : Shapes(random)) {
    Values in(shape, random, 2);
    Values gain({1, shape.columns, shape.offset}, random, 1);
    const std::vector<float> expected = OnCpu({.kind = ProductInputArgs::Kind::kNorm,
                                               .in = in.OnHost(),
                                               .other = gain.host.data(),
                                               .epsilon = 1e-5f});
    const std::vector<float> values =
        ExpectRoundedAlike(shape, [&](CudaElement element, void* out) {
          LaunchNormRows(in.OnDevice(), gain.OnDevice().data, 1e-5f, element, out, nullptr);
        });
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], expected[i], 1e-6 * std::fabs(expected[i])) << shape.columns;
    }
  }
}

TEST_P(ProductInputInOrder, GatesHaveTheCpusBits) {
  std::mt19937 random(2);
  for (const GateFunction function : kGateFunctions) {
    for (const InputShape& shape : Shapes(random)) {
      Values gate(shape, random, 20);
      Values up(shape, random, 6);
      const std::vector<float> expected = OnCpu({.kind = ProductInputArgs::Kind::kGated,
                                                 .function = function,
                                                 .in = gate.OnHost(),
                                                 .other = up.host.data()});
      const std::vector<float> values =
          ExpectRoundedAlike(shape, [&](CudaElement element, void* out) {
            LaunchGatedRows(function, gate.OnDevice(), up.OnDevice(), element, out, nullptr);
          });
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected[i]))
            << static_cast<int>(function) << ": " << gate.host[i] << ", " << up.host[i];
      }
    }
  }
}

TEST_P(ProductInputInOrder, GatesAreTheirFunctionsWithinAFewUlps) {
  std::mt19937 random(5);
  for (const GateFunction function : kGateFunctions) {
    for (const InputShape& shape : Shapes(random)) {
      Values gate(shape, random, 6);
      Values up(shape, random, 6);
      const std::vector<float> values =
          ExpectRoundedAlike(shape, [&](CudaElement element, void* out) {
            LaunchGatedRows(function, gate.OnDevice(), up.OnDevice(), element, out, nullptr);
          });
      for (size_t i = 0; i < values.size(); ++i) {
        // The expected value itself loses 1 + tanh; the exponential grows an error of its argument
        // by as much as that is large.
        const double size = std::max(1.0, std::fabs(std::pow(double{gate.host[i]}, 3)) / 8);
        const double expected = GatedInDouble(function, gate.host[i], up.host[i]);
        ASSERT_NEAR(values[i], expected, 1e-6 * size * std::fabs(expected) + 1e-14)
            << static_cast<int>(function) << ": " << gate.host[i] << ", " << up.host[i];
      }
    }
  }
}

TEST(ProductInput, GatesKeepWhatIsNoNumber) {
  for (const GateFunction function : kGateFunctions) {
    const DeviceArray<float> gate(std::vector<float>{NAN, 1, NAN, 1});
    const DeviceArray<float> up(std::vector<float>{1, NAN, 1, NAN});
    const DeviceArray<float> out(4);
    LaunchGatedRows(function, {gate.data(), 1, 4}, {up.data(), 1, 4}, CudaElement::kF32, out.data(),
                    nullptr);
    for (const float value : out.Download()) EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(ProductInputInOrder, ConversionKeepsFloats) {
  std::mt19937 random(3);
  for (const InputShape& shape : Shapes(random)) {
    Values in(shape, random, 1);
    const std::vector<float> values =
        ExpectRoundedAlike(shape, [&](CudaElement element, void* out) {
          LaunchConvertRows(in.OnDevice(), element, out, nullptr);
        });
    EXPECT_EQ(values, in.host);
  }
}

TEST(ProductInput, ConversionRoundsEveryFloatToTheNearestAndTiesToEven) {
  std::mt19937 random(4);
  std::vector<float> in = {0.0f,     -0.0f,     1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 65519.0f,
                           65520.f,  0x1p-25f,  0x1.8p-24f,      1.0f + 0x1p-8f,  1.0f + 0x3p-8f,
                           INFINITY, -INFINITY, 0x1p-149f};
  while (in.size() < 4096) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(value)) in.push_back(value);
  }
  const DeviceArray<float> device(in);
  ExpectRoundedAlike({1, static_cast<int>(in.size()), 0}, [&](CudaElement element, void* out) {
    LaunchConvertRows({device.data(), 1, static_cast<int>(in.size())}, element, out, nullptr);
  });
}

// A massive activation would make the row of a product with F16 weights NaN.
TEST(ProductInput, WhatIsTooLargeForAnF16IsItsLargest) {
  const std::vector<float> in = {65504, 65520, -1e6f, 3e38f, 70000, -65504.5f, INFINITY, NAN};
  const DeviceArray<float> device(in);
  const DeviceArray<uint16_t> out(in.size());
  LaunchConvertRows({device.data(), 1, static_cast<int>(in.size())}, CudaElement::kF16, out.data(),
                    nullptr);
  std::vector<float> values;
  for (const uint16_t bits : out.Download()) values.push_back(F16ToF32(bits));
  EXPECT_THAT(std::vector<float>(values.begin(), values.end() - 1),
              ElementsAre(65504, 65504, -65504, 65504, 65504, -65504, INFINITY));
  EXPECT_TRUE(std::isnan(values.back()));
}

TEST(ProductInput, NoRowsAreNoLaunch) {
  LaunchNormRows({nullptr, 0, 16}, nullptr, 1e-5f, CudaElement::kF16, nullptr, nullptr);
  LaunchGatedRows(GateFunction::kSilu, {nullptr, 0, 16}, {nullptr, 0, 16}, CudaElement::kF16,
                  nullptr, nullptr);
  LaunchConvertRows({nullptr, 0, 16}, CudaElement::kF16, nullptr, nullptr);
}

}  // namespace
}  // namespace baton
