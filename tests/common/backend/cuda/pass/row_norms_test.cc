#include "common/backend/cuda/pass/row_norms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"
#include "tests/support/random_values.h"

namespace baton {
namespace {

constexpr float kEpsilon = 0.0625f;

class RowNorms : public EveryFiberOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, RowNorms, testing::ValuesIn(cuda_shim::kAllFiberOrders));

// `size` values, divided by their root mean square and multiplied by the gains.
std::vector<double> NormInDouble(const float* values, const std::vector<float>& gain) {
  double squares = 0;
  for (size_t i = 0; i < gain.size(); ++i) squares += double{values[i]} * values[i];
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(gain.size()) + kEpsilon);
  std::vector<double> out;
  for (size_t i = 0; i < gain.size(); ++i) out.push_back(values[i] * inverse * gain[i]);
  return out;
}

struct Groups {
  int rows;
  int size;
  int count;          // groups of a row
  size_t offset = 0;  // floats from a multiple of 16 bytes to the values
};

// Groups of one value, of a head, of odd sizes, of a whole row.
const Groups kGroups[] = {{3, 1, 5},   {2, 64, 3},  {1, 128, 4},  {3, 33, 2},  {2, 80, 2, 1},
                          {5, 512, 1}, {2, 516, 2}, {3, 2048, 1}, {2, 1025, 1}};

TEST_P(RowNorms, NormaliseEachGroupByItself) {
  std::mt19937 random(1);
  for (const Groups& groups : kGroups) {
    const auto size = static_cast<size_t>(groups.size);
    const std::vector<float> gain = NormalValues(size, random);
    const size_t all = size * static_cast<size_t>(groups.rows * groups.count);
    const std::vector<float> in = NormalValues(groups.offset + all, random);
    const DeviceArray<float> device_gain(gain);
    const DeviceArray<float> values(in);
    LaunchNormGroups(device_gain.data(), groups.size, kEpsilon,
                     {values.data() + groups.offset, groups.rows, groups.count * groups.size},
                     nullptr);
    const std::vector<float> out = values.Download();
    for (size_t at = groups.offset; at < in.size(); at += size) {
      const std::vector<double> expected = NormInDouble(&in[at], gain);
      for (size_t i = 0; i < size; ++i) {
        ASSERT_NEAR(out[at + i], expected[i], 1e-6 * std::fabs(expected[i]))
            << "groups of " << size << ", element " << at + i;
      }
    }
    for (size_t i = 0; i < groups.offset; ++i) EXPECT_EQ(out[i], in[i]);
  }
}

TEST_P(RowNorms, AreAddedToTheOutput) {
  std::mt19937 random(2);
  for (const Groups& shape : kGroups) {
    const auto columns = static_cast<size_t>(shape.size);
    const size_t all = static_cast<size_t>(shape.rows) * columns;
    const std::vector<float> gain = NormalValues(columns, random);
    const std::vector<float> in = NormalValues(all, random);
    const std::vector<float> before = NormalValues(all, random);
    const DeviceArray<float> device_gain(gain), device_in(in), device_out(before);
    constexpr float kScale = -0.3f;
    LaunchAddNorm({device_in.data(), shape.rows, shape.size}, device_gain.data(), kEpsilon, kScale,
                  {device_out.data(), shape.rows, shape.size}, nullptr);
    const std::vector<float> out = device_out.Download();
    for (size_t at = 0; at < all; at += columns) {
      const std::vector<double> norm = NormInDouble(&in[at], gain);
      for (size_t i = 0; i < columns; ++i) {
        const double expected = before[at + i] + double{kScale} * norm[i];
        ASSERT_NEAR(out[at + i], expected, 1e-6 * (std::fabs(before[at + i]) + std::fabs(norm[i])));
      }
    }
  }
}

TEST_P(RowNorms, GiveARowTheSameBitsAloneAndAmongOthers) {
  std::mt19937 random(3);
  for (const int size : {64, 96, 1030}) {
    const int columns = size == 1030 ? size : 4 * size;
    constexpr int kRows = 7;
    const std::vector<float> gain = NormalValues(static_cast<size_t>(columns), random);
    const std::vector<float> in = NormalValues(static_cast<size_t>(kRows * columns), random);
    const DeviceArray<float> device_gain(gain);
    const DeviceArray<float> all(in), added(in);
    LaunchNormGroups(device_gain.data(), size, kEpsilon, {all.data(), kRows, columns}, nullptr);
    LaunchAddNorm({all.data(), kRows, columns}, device_gain.data(), kEpsilon, 2,
                  {added.data(), kRows, columns}, nullptr);
    for (int row = 0; row < kRows; ++row) {
      const auto first = static_cast<size_t>(row * columns);
      const std::vector<float> own(&in[first], &in[first] + columns);
      const DeviceArray<float> alone(own), alone_added(own);
      LaunchNormGroups(device_gain.data(), size, kEpsilon, {alone.data(), 1, columns}, nullptr);
      LaunchAddNorm({alone.data(), 1, columns}, device_gain.data(), kEpsilon, 2,
                    {alone_added.data(), 1, columns}, nullptr);
      const size_t bytes = own.size() * sizeof(float);
      EXPECT_EQ(std::memcmp(&all.Download()[first], alone.Download().data(), bytes), 0);
      EXPECT_EQ(std::memcmp(&added.Download()[first], alone_added.Download().data(), bytes), 0);
    }
  }
}

TEST(RowNormsOfNoRows, AreNoLaunch) {
  LaunchNormGroups(nullptr, 4, kEpsilon, {nullptr, 0, 16}, nullptr);
  LaunchAddNorm({nullptr, 0, 16}, nullptr, kEpsilon, 1, {nullptr, 0, 16}, nullptr);
}

}  // namespace
}  // namespace baton
