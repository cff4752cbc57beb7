#include "common/backend/cuda/pass/row_operations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"
#include "tests/support/random_values.h"

namespace baton {
namespace {

class RowOperationsInOrder : public EveryFiberOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, RowOperationsInOrder,
                         testing::ValuesIn(cuda_shim::kAllFiberOrders));

TEST_P(RowOperationsInOrder, AddBiasHasTheCpusBits) {
  std::mt19937 random(1);
  CpuBackend cpu(CpuIsa::kPortable, 1, {});
  for (const int columns : {1, 4, 96, 513, 514, 1024, 1536}) {
    const int rows = 1 + static_cast<int>(random() % 7);
    const std::vector<float> bias = NormalValues(static_cast<size_t>(columns), random);
    std::vector<float> expected = NormalValues(static_cast<size_t>(rows * columns), random);
    const DeviceArray<float> device_bias(bias);
    const DeviceArray<float> out(expected);
    LaunchAddBias(device_bias.data(), {out.data(), rows, columns}, nullptr);
    cpu.AddBias(bias.data(), {expected.data(), rows, columns});
    EXPECT_EQ(out.Download(), expected);
  }
}

TEST_P(RowOperationsInOrder, ScaleAndSoftCapHaveTheCpusBits) {
  std::mt19937 random(3);
  CpuBackend cpu(CpuIsa::kPortable, 1, {});
  for (const int columns : {1, 4, 513, 1536}) {
    const int rows = 1 + static_cast<int>(random() % 7);
    std::vector<float> in = NormalValues(static_cast<size_t>(rows * columns), random);
    for (size_t i = 0; i < in.size(); ++i) in[i] *= std::ldexp(60.0f, -static_cast<int>(i % 40));
    const DeviceArray<float> scaled(in);
    const DeviceArray<float> capped(in);
    LaunchScale(-1.7f, {scaled.data(), rows, columns}, nullptr);
    LaunchSoftCap(30, {capped.data(), rows, columns}, nullptr);
    const std::vector<float> products = scaled.Download();
    const std::vector<float> caps = capped.Download();
    for (size_t i = 0; i < in.size(); ++i) {
      ASSERT_EQ(products[i], -1.7f * in[i]);
      ASSERT_NEAR(caps[i], 30 * std::tanh(double{in[i]} / 30), 30 * 2e-7) << in[i];
    }
    std::vector<float> expected = in;
    cpu.Scale(-1.7f, {expected.data(), rows, columns});
    EXPECT_EQ(products, expected);
    cpu.SoftCap(30, {in.data(), rows, columns});
    EXPECT_EQ(caps, in);
  }
}

TEST(RowOperations, SoftCapKeepsInfinitiesAtTheCapAndNan) {
  const DeviceArray<float> values(std::vector<float>{INFINITY, -INFINITY, NAN, 0});
  LaunchSoftCap(30, {values.data(), 1, 4}, nullptr);
  const std::vector<float> capped = values.Download();
  EXPECT_EQ(capped[0], 30);
  EXPECT_EQ(capped[1], -30);
  EXPECT_TRUE(std::isnan(capped[2]));
  EXPECT_EQ(capped[3], 0);
}

// Picks about a third of `count` rows.
std::vector<int32_t> SomeRows(int count, std::mt19937& random) {
  std::vector<int32_t> rows;
  for (int row = 0; row < count; ++row) {
    if (random() % 3 == 0) rows.push_back(row);
  }
  if (rows.empty()) rows.push_back(count - 1);
  return rows;
}

TEST_P(RowOperationsInOrder, CopyRowsIsTheCpusIntoOtherMemoryAndInPlace) {
  std::mt19937 random(2);
  CpuBackend cpu(CpuIsa::kPortable, 1, {});
  for (const int columns : {1, 3, 4, 128, 300, 577}) {
    for (const int in_rows : {1, 2, 9, 40, 75}) {
      std::vector<int32_t> rows = SomeRows(in_rows, random);
      if (in_rows == 9) rows = {0, 1, 2, 3, 4, 5, 6, 7, 8};
      const int out_rows = static_cast<int>(rows.size());
      std::vector<float> expected = NormalValues(static_cast<size_t>(in_rows * columns), random);
      const DeviceArray<int32_t> device_rows(rows);
      const DeviceArray<float> in(expected);
      const DeviceArray<float> out(static_cast<size_t>(out_rows * columns));
      LaunchCopyRows({in.data(), in_rows, columns}, device_rows.data(),
                     {out.data(), out_rows, columns}, nullptr);
      EXPECT_EQ(in.Download(), expected);
      LaunchCopyRows({in.data(), in_rows, columns}, device_rows.data(),
                     {in.data(), out_rows, columns}, nullptr);
      cpu.CopyRows({expected.data(), in_rows, columns}, rows, {expected.data(), out_rows, columns});
      EXPECT_EQ(in.Download(), expected);
      expected.resize(out.size());
      EXPECT_EQ(out.Download(), expected);
    }
  }
}

TEST(RowOperations, NoRowsAreNoLaunch) {
  LaunchAddBias(nullptr, {nullptr, 0, 16}, nullptr);
  LaunchScale(2, {nullptr, 0, 16}, nullptr);
  LaunchSoftCap(2, {nullptr, 0, 16}, nullptr);
  LaunchCopyRows({nullptr, 5, 16}, nullptr, {nullptr, 0, 16}, nullptr);
}

}  // namespace
}  // namespace baton
