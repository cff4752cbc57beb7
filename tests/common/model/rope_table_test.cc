#include "common/model/rope_table.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

RopeConfig Config() { return {.dim = 8, .base = 10000}; }

struct Angles {
  std::vector<float> cosines;
  std::vector<float> sines;
};

Angles Fill(const RopeTable& table, const std::vector<int>& positions) {
  Angles angles{.cosines = {9, 9}, .sines = {9}};  // what was there is gone afterwards
  table.Fill(positions, angles.cosines, angles.sines);
  return angles;
}

TEST(RopeTable, HasTheAnglesOfItsDefinition) {
  RopeConfig config = Config();
  config.linear_scale = 2;
  const std::vector<float> divisors = {1, 2, 4, 8};
  const std::vector<int> positions = {0, 1, 7, 8191};
  const Angles angles = Fill(RopeTable(config, divisors), positions);
  ASSERT_EQ(angles.cosines.size(), 16u);
  ASSERT_EQ(angles.sines.size(), 16u);
  for (size_t row = 0; row < positions.size(); ++row) {
    for (size_t i = 0; i < 4; ++i) {
      const double angle = positions[row] / 2.0 *
                           std::pow(10000.0, -2.0 * static_cast<double>(i) / 8) /
                           double{divisors[i]};
      EXPECT_NEAR(angles.cosines[row * 4 + i], std::cos(angle), 1e-7) << positions[row] << " " << i;
      EXPECT_NEAR(angles.sines[row * 4 + i], std::sin(angle), 1e-7) << positions[row] << " " << i;
    }
  }
}

// Pairs before the ramp keep their frequency, those behind it have it divided, and on the ramp it is
// between.
TEST(RopeTable, YarnDividesTheFrequenciesBehindItsRampAndScalesBothByItsMagnitude) {
  RopeConfig config = Config();
  config.yarn_factor = 4;
  config.ramp_low = 1;
  config.ramp_high = 3;
  config.magnitude = 1.25;
  const Angles angles = Fill(RopeTable(config, {}), {13});
  const double factors[] = {1, 1, 0.5 + 0.5 / 4, 1.0 / 4};
  for (size_t i = 0; i < 4; ++i) {
    const double angle = 13 * std::pow(10000.0, -2.0 * static_cast<double>(i) / 8) * factors[i];
    EXPECT_NEAR(angles.cosines[i], 1.25 * std::cos(angle), 2e-7) << i;
    EXPECT_NEAR(angles.sines[i], 1.25 * std::sin(angle), 2e-7) << i;
  }
}

TEST(RopeTable, ARampWithoutLengthIsAStep) {
  RopeConfig config = Config();
  config.yarn_factor = 2;
  config.ramp_low = config.ramp_high = 1;
  const Angles angles = Fill(RopeTable(config, {}), {9});
  for (size_t i = 0; i < 4; ++i) {
    const double frequency = std::pow(10000.0, -2.0 * static_cast<double>(i) / 8);
    EXPECT_NEAR(angles.sines[i], std::sin(9 * frequency / (i <= 1 ? 1 : 2)), 2e-7) << i;
  }
}

TEST(RopeTable, TurnsNothingAtPositionZero) {
  const Angles angles = Fill(RopeTable(Config(), {}), {0});
  EXPECT_EQ(angles.cosines, std::vector<float>(4, 1.0f));
  EXPECT_EQ(angles.sines, std::vector<float>(4, 0.0f));
}

TEST(RopeTable, DivisorsOfOneAreAsNone) {
  const std::vector<int> positions = {3, 5000};
  const Angles with = Fill(RopeTable(Config(), std::vector<float>(4, 1.0f)), positions);
  const Angles without = Fill(RopeTable(Config(), {}), positions);
  EXPECT_EQ(with.cosines, without.cosines);
  EXPECT_EQ(with.sines, without.sines);
}

// Prefill asks for many positions at once, decode for one.
TEST(RopeTable, ARowDependsOnItsPositionAlone) {
  const RopeTable table(Config(), {});
  const Angles together = Fill(table, {11, 4, 300});
  const Angles alone = Fill(table, {4});
  EXPECT_EQ(std::vector<float>(together.cosines.begin() + 4, together.cosines.begin() + 8),
            alone.cosines);
  EXPECT_EQ(std::vector<float>(together.sines.begin() + 4, together.sines.begin() + 8),
            alone.sines);
}

// A float has too few digits for the product of a large position and a small frequency.
TEST(RopeTable, NeighboursFarOutDifferAsNeighboursNearbyDo) {
  RopeConfig config = Config();
  config.dim = 2;
  const int far = 1 << 24;
  const Angles angles = Fill(RopeTable(config, {}), {far, far + 1});
  EXPECT_NEAR(angles.sines[1], std::sin(double{far + 1}), 1e-7);
  EXPECT_NE(angles.sines[0], angles.sines[1]);
}

}  // namespace
}  // namespace baton
