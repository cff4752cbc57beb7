#include "common/backend/cpu/peaks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "absl/strings/str_replace.h"

#include "common/backend/cpu/kernels/kernels.h"
#include "common/backend/cpu/simd/lanes.h"

namespace baton {
namespace {

class PeakLoopsTest : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override {
    if (!CpuHas(GetParam())) GTEST_SKIP() << "this CPU has no " << CpuIsaName(GetParam());
  }
  const PeakLoops& loops() { return KernelsFor(GetParam()).peak; }
};

TEST_P(PeakLoopsTest, ReadTouchesEveryLine) {
  std::vector<float> floats(64 * kLanes, 7.0f);
  for (size_t line = 0; line < 64; ++line) floats[line * kLanes] = 1.0f;
  const auto* bytes = reinterpret_cast<const uint8_t*>(floats.data());
  EXPECT_EQ(loops().read(bytes, floats.size() * sizeof(float)), 64.0f);
}

// Lane 0 multiplies the codes 0, 1, 2, 3 by themselves: a dot is 14, and a block has 8 dots. The
// sums of a tile start at the number of their row.
TEST_P(PeakLoopsTest, IntegerProductComputesAllItsOperations) {
  const double tile = loops().integer_ops_per_block / (2.0 * 32 * kLanes);
  const double added = std::ldexp(1.0, -41);  // the product of both scales
  for (const int blocks : {1, 3}) {
    double dots = 0;    // sum over blocks that have one scale
    double halves = 0;  // sum over blocks whose halves have a scale each
    for (int b = 1; b <= blocks; ++b) {
      dots += 14.0 * 8 * b;
      halves += 14.0 * (8 * b - 4) + 14.0 * 8 * b;
    }
    const double plain = loops().integer_product[kScaleOnly](blocks) / added;
    const double least = tile * dots;
    EXPECT_GE(plain, least);
    EXPECT_LT(plain, least + tile * blocks * 8);  // the tile adds the numbers of its rows
    const double rows = plain - least;
    EXPECT_FLOAT_EQ(loops().integer_product[kScaleAndMin](blocks) / added, plain + tile * blocks);
    EXPECT_FLOAT_EQ(loops().integer_product[kTwoScales](blocks) / added, tile * halves + 2 * rows);
  }
}

TEST_P(PeakLoopsTest, FloatProductComputesAllItsOperations) {
  const double chains = loops().float_ops_per_column / (2.0 * kLanes);
  const float starts = loops().float_product(0);
  EXPECT_FLOAT_EQ(starts, chains * (chains - 1) / 2);
  EXPECT_FLOAT_EQ(loops().float_product(512), starts + chains * 512 / 256);
}

INSTANTIATE_TEST_SUITE_P(Isas, PeakLoopsTest, testing::ValuesIn(kAllCpuIsas),
                         [](const auto& param) {
                           return absl::StrReplaceAll(CpuIsaName(param.param), {{"-", "_"}});
                         });

TEST(MeasureCpuPeaks, FindsPositiveRates) {
  const auto peaks = MeasureCpuPeaks({.isa = *ParseCpuIsa("auto"), .threads = 2});
  ASSERT_TRUE(peaks.ok()) << peaks.status();
  EXPECT_GT(peaks->memory_read_gb_s, 0.01);
  EXPECT_LT(peaks->memory_read_gb_s, 1e5);
  EXPECT_GT(peaks->int8_gops, 0.01);
  EXPECT_GT(peaks->f32_gflops, 0.01);
}

TEST(CpuName, IsOneLineOfText) {
  const std::string name = CpuName();
  EXPECT_FALSE(name.empty());
  for (const char c : name) EXPECT_TRUE(c >= ' ' && c <= '~') << name;
}

}  // namespace
}  // namespace baton
