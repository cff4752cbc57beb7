#include "common/backend/cuda/experts/expert_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {
namespace {

class ExpertPairsInOrder : public EveryFiberOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, ExpertPairsInOrder, testing::ValuesIn(cuda_shim::kAllFiberOrders));

// Groups the pairs, and checks that each is in one tile of its expert, and tiles are as full as
// they can be.
void ExpectGrouped(const std::vector<int32_t>& pair_experts, int experts, int tile_pairs) {
  const int pairs = static_cast<int>(pair_experts.size());
  const int most = MaxExpertTiles(pairs, experts, tile_pairs);
  const DeviceArray<int32_t> device_experts(pair_experts);
  const DeviceArray<int32_t> counts(static_cast<size_t>(experts)), order(pair_experts.size()),
      tile_count(1);
  const DeviceArray<ExpertTile> device_tiles(static_cast<size_t>(most));
  LaunchGroupPairs(device_experts.data(), pairs, experts, tile_pairs,
                   {.counts = counts.data(),
                    .order = order.data(),
                    .tiles = device_tiles.data(),
                    .tile_count = tile_count.data(),
                    .max_tiles = most},
                   nullptr);
  std::vector<int32_t> expected(pair_experts.size());
  std::iota(expected.begin(), expected.end(), 0);
  std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) {
    return pair_experts[static_cast<size_t>(a)] < pair_experts[static_cast<size_t>(b)];
  });
  ASSERT_EQ(order.Download(), expected);
  const int tiles = tile_count.Download()[0];
  ASSERT_LE(tiles, most);
  const std::vector<ExpertTile> all = device_tiles.Download();
  int place = 0;
  for (int i = 0; i < tiles; ++i) {
    const ExpertTile& tile = all[static_cast<size_t>(i)];
    ASSERT_EQ(tile.first, place);
    ASSERT_GT(tile.count, 0);
    const auto of = [&](int at) {
      return pair_experts[static_cast<size_t>(expected[static_cast<size_t>(at)])];
    };
    for (int k = 0; k < tile.count; ++k) ASSERT_EQ(of(place + k), tile.expert);
    place += tile.count;
    ASSERT_LE(tile.count, tile_pairs);
    if (tile.count < tile_pairs && place < pairs) {
      ASSERT_NE(of(place), tile.expert);
    }
  }
  ASSERT_EQ(place, pairs);
}

TEST_P(ExpertPairsInOrder, AreInFullTilesOfTheirExperts) {
  std::mt19937 random(1);
  for (const int experts : {1, 5, 40, 130, 512}) {
    for (const int pairs : {1, 8, 33, 300}) {
      for (const int tile_pairs : {8, 32}) {
        std::vector<int32_t> pair_experts;
        const unsigned among = 1 + random() % static_cast<unsigned>(experts);
        for (int i = 0; i < pairs; ++i) {
          pair_experts.push_back(experts - 1 - static_cast<int32_t>(random() % among));
        }
        ExpectGrouped(pair_experts, experts, tile_pairs);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The bound on tiles is reached: every expert's last tile has one pair.
TEST(ExpertPairs, FillNoMoreTilesThanThereIsRoomFor) {
  for (const int tile_pairs : {8, 32}) {
    std::vector<int32_t> pair_experts;
    for (int i = 0; i < 3 * (tile_pairs + 1); ++i) pair_experts.push_back(i % 3);
    ExpectGrouped(pair_experts, 3, tile_pairs);
    EXPECT_EQ(MaxExpertTiles(3 * (tile_pairs + 1), 3, tile_pairs), 6);
    EXPECT_EQ(MaxExpertTiles(2, 500, tile_pairs), 2);
  }
}

}  // namespace
}  // namespace baton
