#include "common/base/kv_layer_groups.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

#include "common/base/kv_type.h"

namespace baton {
namespace {

// `layers` windows: every `nth` layer sees all keys, the others `window` of them.
std::vector<int> FullEvery(int layers, int nth, int window) {
  std::vector<int> windows;
  for (int layer = 1; layer <= layers; ++layer) windows.push_back(layer % nth == 0 ? 0 : window);
  return windows;
}

int GroupsOfWindow(const KvLayerGroups& groups, int window) {
  int count = 0;
  for (int group = 0; group < groups.count(); ++group) count += groups.window(group) == window;
  return count;
}

TEST(KvLayerGroupsTest, ByDefaultOneGroupHasAllLayers) {
  const KvLayerGroups groups;
  EXPECT_EQ(groups.count(), 1);
  EXPECT_EQ(groups.GroupOf(7), 0);
  EXPECT_EQ(groups.SlotOf(7), 7);
  EXPECT_EQ(groups.SlotsOf(30), 30);
  EXPECT_FALSE(groups.any_window());
  EXPECT_EQ(groups.FirstSeen(0, 1000), 0);
}

TEST(KvLayerGroupsTest, LayersOfOneKindAreOneGroup) {
  for (const int window : {0, 2048}) {
    const KvLayerGroups groups(std::vector<int>(28, window));
    EXPECT_EQ(groups.count(), 1);
    EXPECT_EQ(groups.SlotsOf(28), 28);
    EXPECT_EQ(groups.window(0), 0);
    EXPECT_FALSE(groups.any_window());
  }
}

TEST(KvLayerGroupsTest, EveryLayerHasAPlaceOfItsOwnAmongLayersOfItsWindow) {
  for (const auto& [layers, nth, window] : std::vector<std::tuple<int, int, int>>{{18, 6, 512},
                                                                                  {26, 6, 512},
                                                                                  {34, 6, 1024},
                                                                                  {48, 6, 1024},
                                                                                  {62, 6, 1024},
                                                                                  {24, 2, 128},
                                                                                  {32, 4, 4096},
                                                                                  {2, 2, 16},
                                                                                  {7, 3, 16}}) {
    const std::vector<int> windows = FullEvery(layers, nth, window);
    const KvLayerGroups groups(windows);
    std::set<std::pair<int, int>> places;
    for (int layer = 0; layer < layers; ++layer) {
      const int group = groups.GroupOf(layer);
      ASSERT_EQ(groups.window(group), windows[static_cast<size_t>(layer)]);
      ASSERT_GE(groups.SlotOf(layer), 0);
      ASSERT_LT(groups.SlotOf(layer), groups.SlotsOf(layers));
      ASSERT_TRUE(places.insert({group, groups.SlotOf(layer)}).second) << layer;
    }
    for (const int kind : {0, window}) {
      const auto in_kind = std::count(windows.begin(), windows.end(), kind);
      const int held = GroupsOfWindow(groups, kind) * groups.SlotsOf(layers);
      EXPECT_LE((held - in_kind) * 6, held) << layers << " layers, window " << kind;
    }
  }
}

TEST(KvLayerGroupsTest, GroupsAreAsLargeAsTheEmptySlotsAllow) {
  const KvLayerGroups gemma_270m(FullEvery(18, 6, 512));
  EXPECT_EQ(gemma_270m.SlotsOf(18), 3);
  EXPECT_EQ(gemma_270m.count(), 1 + 5);
  const KvLayerGroups gemma_1b(FullEvery(26, 6, 512));
  EXPECT_EQ(gemma_1b.SlotsOf(26), 4);
  EXPECT_EQ(gemma_1b.count(), 1 + 6);
  const KvLayerGroups gpt_oss(FullEvery(24, 2, 128));
  EXPECT_EQ(gpt_oss.SlotsOf(24), 12);
  EXPECT_EQ(gpt_oss.count(), 2);
}

TEST(KvLayerGroupsTest, TheFirstGroupKeepsAllTokens) {
  EXPECT_EQ(KvLayerGroups(std::vector<int>{16, 0}).GroupOf(1), 0);
  EXPECT_EQ(KvLayerGroups(std::vector<int>{0, 16}).GroupOf(0), 0);
  const KvLayerGroups groups(std::vector<int>{16, 64, 32});
  EXPECT_EQ(groups.GroupOf(1), 0);
  EXPECT_EQ(groups.window(0), 0) << "nothing keeps more than the layers of window 64";
  EXPECT_EQ(groups.window(1), 32);
  EXPECT_EQ(groups.window(2), 16);
}

TEST(KvLayerGroupsTest, AQuerySeesItsWindowWithItself) {
  const KvLayerGroups groups(std::vector<int>{0, 16});
  EXPECT_EQ(groups.FirstSeen(0, 5000), 0);
  EXPECT_EQ(groups.FirstSeen(1, 15), 0);
  EXPECT_EQ(groups.FirstSeen(1, 16), 1);
  EXPECT_EQ(groups.FirstSeen(1, 100), 85);
}

// The last block, of up to kAuditRows tokens, can be computed from what is handed off, and so can
// the next token.
TEST(KvLayerGroupsTest, AHandOffCarriesWhatItsLastBlockSees) {
  for (const int window : {1, 16, 100, 512}) {
    const KvLayerGroups groups(std::vector<int>{0, window});
    for (const int tokens : {1, 15, 16, 64, 65, 100, 576, 1000, 1001}) {
      EXPECT_EQ(groups.FirstHandedOff(0, tokens), 0);
      const int first = groups.FirstHandedOff(1, tokens);
      EXPECT_EQ(first % kKvPageTokens, 0);
      EXPECT_LE(first, groups.FirstSeen(1, tokens));
      EXPECT_LE(first, groups.FirstSeen(1, (tokens - 1) / kAuditRows * kAuditRows));
      EXPECT_GE(first + window + kAuditRows + kKvPageTokens, std::min(tokens, window));
    }
  }
}

TEST(KvLayerGroupsTest, WhatIsNeededIsWhatTheNextTokensAndTheHandOffRead) {
  const KvLayerGroups groups(std::vector<int>{0, 16});
  EXPECT_EQ(groups.FirstNeeded(1, {.computes = true}, 200), 185);
  EXPECT_EQ(groups.FirstNeeded(1, {.handed_off = 300}, 200), 200);
  EXPECT_EQ(groups.FirstNeeded(1, {.handed_off = 210}, 200), groups.FirstHandedOff(1, 210));
  EXPECT_EQ(groups.FirstNeeded(1, {.computes = true, .handed_off = 210}, 200),
            groups.FirstHandedOff(1, 210));
  EXPECT_EQ(groups.FirstNeeded(1, {.computes = true, .handed_off = 1000}, 200), 185);
  EXPECT_EQ(groups.FirstNeeded(0, {.computes = true, .handed_off = 1000}, 200), 0);
  EXPECT_EQ(groups.FirstNeeded(0, {}, 200), 200);
}

// A hand-off's blocks, counted one by one.
int64_t BlocksHandedOff(const KvLayerGroups& groups, int tokens, int block_size) {
  int64_t blocks = 0;
  for (int group = 0; group < groups.count(); ++group) {
    for (int row = 0; row * block_size < tokens; ++row) {
      blocks += (row + 1) * block_size > groups.FirstHandedOff(group, tokens) ? 1 : 0;
    }
  }
  return blocks;
}

TEST(KvLayerGroupsTest, BlocksSufficeForAHandOffAndTokensForTheirBlocks) {
  EXPECT_EQ(KvLayerGroups().BlocksOf(65, 32), 3);
  EXPECT_EQ(KvLayerGroups().TokensIn(7, 32), 7 * 32);
  const KvLayerGroups groups(std::vector<int>{0, 100, 30});
  int64_t before = 0;
  for (int tokens = 0; tokens < 2000; ++tokens) {
    const int64_t blocks = groups.BlocksOf(tokens, 32);
    ASSERT_GE(blocks, BlocksHandedOff(groups, tokens, 32)) << tokens;
    ASSERT_LE(blocks, BlocksHandedOff(groups, tokens, 32) + 4) << tokens;
    ASSERT_GE(blocks, before);
    before = blocks;
  }
  for (int64_t blocks = 0; blocks < 200; ++blocks) {
    const int64_t tokens = groups.TokensIn(blocks, 32);
    ASSERT_EQ(tokens % 32, 0);
    ASSERT_LE(groups.BlocksOf(tokens, 32), blocks);
    ASSERT_GT(groups.BlocksOf(tokens + 32, 32), blocks);
  }
}

}  // namespace
}  // namespace baton
