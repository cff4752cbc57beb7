#include "common/backend/cpu/product/row_ops.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/instruction_sets.h"
#include "tests/support/random_values.h"

namespace baton {
namespace {

constexpr int kOpRows = 5;
constexpr float kEpsilon = 1e-5f;

// Widths on both sides of a vector's.
constexpr int kSizes[] = {1, 15, 16, 17, 48, 100};

Tensor AsTensor(std::vector<float>& values, int columns) {
  return {values.data(), static_cast<int>(values.size()) / columns, columns};
}

// Runs operate(isa, pool, values) on copies of `values`, with every instruction set and several
// numbers of threads. Expects the same bits of all, and returns them.
template <class Operate>
std::vector<float> OnEverySet(const std::vector<float>& values, const Operate& operate) {
  std::vector<float> first;
  for (const CpuIsa isa : InstructionSets()) {
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads, {});
      std::vector<float> out = values;
      operate(isa, pool, out);
      if (first.empty()) first = out;
      EXPECT_EQ(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)), 0)
          << CpuIsaName(isa) << ", " << threads << " threads";
    }
  }
  return first;
}

// The norm of `count` values in double.
std::vector<double> NormOf(const float* x, const float* gain, int count) {
  double squares = 0;
  for (int i = 0; i < count; ++i) squares += double{x[i]} * x[i];
  std::vector<double> norm;
  for (int i = 0; i < count; ++i) {
    norm.push_back(x[i] / std::sqrt(squares / count + kEpsilon) * gain[i]);
  }
  return norm;
}

TEST(NormGroupsOfRows, NormalisesEachGroupByItselfWithTheSameGain) {
  for (const int size : kSizes) {
    for (const int groups : {1, 3}) {
      const int columns = size * groups;
      const std::vector<float> values = NormalValues(static_cast<size_t>(kOpRows * columns), 1);
      const std::vector<float> gain = NormalValues(static_cast<size_t>(size), 2);
      const std::vector<float> out =
          OnEverySet(values, [&](CpuIsa isa, ThreadPool& pool, std::vector<float>& x) {
            NormGroupsOfRows(isa, pool, gain.data(), size, kEpsilon, AsTensor(x, columns));
          });
      for (int first = 0; first < kOpRows * columns; first += size) {
        const std::vector<double> expected =
            NormOf(&values[static_cast<size_t>(first)], gain.data(), size);
        for (int i = 0; i < size; ++i) {
          EXPECT_NEAR(out[static_cast<size_t>(first + i)], expected[static_cast<size_t>(i)], 2e-6)
              << size << " x " << groups;
        }
      }
    }
  }
}

TEST(AddNormOfRows, AddsTheScaledNormOfEachRow) {
  for (const int columns : kSizes) {
    for (const float scale : {1.0f, 0.22f}) {
      std::vector<float> in = NormalValues(static_cast<size_t>(kOpRows * columns), 3);
      const std::vector<float> gain = NormalValues(static_cast<size_t>(columns), 4);
      const std::vector<float> before = NormalValues(in.size(), 5);
      const std::vector<float> out =
          OnEverySet(before, [&](CpuIsa isa, ThreadPool& pool, std::vector<float>& x) {
            AddNormOfRows(isa, pool, AsTensor(in, columns), gain.data(), kEpsilon, scale,
                          AsTensor(x, columns));
          });
      for (int row = 0; row < kOpRows; ++row) {
        const size_t first = static_cast<size_t>(row * columns);
        const std::vector<double> norm = NormOf(&in[first], gain.data(), columns);
        for (size_t i = 0; i < norm.size(); ++i) {
          EXPECT_NEAR(out[first + i], before[first + i] + scale * norm[i], 4e-6) << columns;
        }
      }
    }
  }
}

TEST(ScaleRows, MultipliesEveryValueAndNothingBehind) {
  for (const int columns : kSizes) {
    std::vector<float> values = NormalValues(static_cast<size_t>(kOpRows * columns), 6);
    std::vector<float> expected = values;
    for (float& x : expected) x *= 0.3f;
    values.push_back(7);
    expected.push_back(7);
    EXPECT_EQ(OnEverySet(values,
                         [&](CpuIsa isa, ThreadPool& pool, std::vector<float>& x) {
                           ScaleRows(isa, pool, 0.3f, {x.data(), kOpRows, columns});
                         }),
              expected);
  }
}

TEST(SoftCapRows, IsTheHyperbolicTangentOfSmallAndLargeValues) {
  constexpr float kCap = 30;
  std::vector<float> values;
  for (float x = -400; x < 400; x += 0.37f) values.push_back(x);
  for (const float x : {0.0f, 1e-30f, -1e30f, 1e30f}) values.push_back(x);
  const int columns = static_cast<int>(values.size());
  const std::vector<float> out =
      OnEverySet(values, [&](CpuIsa isa, ThreadPool& pool, std::vector<float>& x) {
        SoftCapRows(isa, pool, kCap, AsTensor(x, columns));
      });
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(out[i], kCap * std::tanh(double{values[i]} / kCap), kCap * 2e-7) << values[i];
    if (i == 0 || i + 4 >= values.size()) continue;  // the last four do not ascend
    EXPECT_GE(out[i], out[i - 1]);
  }
}

TEST(SoftCapRows, OfNoNumberIsNone) {
  for (const CpuIsa isa : InstructionSets()) {
    ThreadPool pool(1, {});
    std::vector<float> values(20, std::numeric_limits<float>::quiet_NaN());
    SoftCapRows(isa, pool, 6, AsTensor(values, 20));
    for (const float x : values) EXPECT_TRUE(std::isnan(x)) << CpuIsaName(isa);
  }
}

}  // namespace
}  // namespace baton
