// How soon a forger is found, by the chooser itself and seeded random numbers.
#include "decode_worker/audit_chooser.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <random>
#include <vector>

namespace baton {
namespace {

constexpr int kTrials = 5000;

AuditChooser Chooser(double share, std::mt19937_64& random) {
  return AuditChooser(share, [&random] { return random(); });
}

// Pushes until the audit of one finds a forged block; those from first_forged on are. `most`: the
// pushes to look at; more count as most + 1.
int PushesUntilFound(AuditChooser& chooser, int blocks, int first_forged, int most) {
  for (int push = 1; push <= most; ++push) {
    const std::optional<int> block = chooser.Choose(0, blocks);
    if (block && *block >= first_forged) return push;
  }
  return most + 1;
}

TEST(AuditChooser, WhoForgesEveryPageIsFoundWithin100PushesInNinetyNineOfAHundredTrials) {
  std::mt19937_64 random(1);
  AuditChooser chooser = Chooser(0.05, random);
  int found = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    if (PushesUntilFound(chooser, /*blocks=*/32, /*first_forged=*/0, 100) <= 100) ++found;
  }
  EXPECT_GE(found, kTrials * 99 / 100);
}

// docs/security.md has the formula and these numbers.
TEST(AuditChooser, WhoForgesTheLastOfMBlocksIsFoundAfterMOverSharePushesOnAverage) {
  std::mt19937_64 random(2);
  for (const double share : {0.02, 0.05, 1.0}) {
    for (const int blocks : {1, 8, 64}) {
      AuditChooser chooser = Chooser(share, random);
      double pushes = 0;
      for (int trial = 0; trial < kTrials; ++trial) {
        pushes += PushesUntilFound(chooser, blocks, blocks - 1, 1'000'000);
      }
      const double expected = blocks / share;
      EXPECT_NEAR(pushes / kTrials, expected, 0.05 * expected) << blocks << " blocks";
      std::printf("share %.2f, 1 of %d blocks: found after %.1f pushes, expected %.1f\n", share,
                  blocks, pushes / kTrials, expected);
    }
  }
}

TEST(AuditChooser, EachPushedBlockIsChosenEquallyOftenAndNoOther) {
  std::mt19937_64 random(3);
  AuditChooser chooser = Chooser(1, random);
  std::vector<int> chosen(10);
  for (int i = 0; i < 70'000; ++i) ++chosen[static_cast<size_t>(chooser.Choose(3, 10).value())];
  for (int block = 0; block < 10; ++block) {
    EXPECT_NEAR(chosen[static_cast<size_t>(block)], block < 3 ? 0 : 10'000, 400);
  }
}

KvLayout LayoutOf(int block_size, const std::vector<int>& windows) {
  KvLayout layout = {.layers = static_cast<int>(windows.size()),
                     .kv_heads = 1,
                     .head_dim = 4,
                     .block_size = block_size};
  layout.groups = KvLayerGroups(windows);
  return layout;
}

TEST(AuditableBlocks, AreAllWhereNoLayerHasAWindowOrTheSequenceIsShort) {
  EXPECT_EQ(FirstAuditableBlock(LayoutOf(32, {0, 0}), 2000), 0);
  EXPECT_EQ(FirstAuditableBlock(LayoutOf(32, {0, 40}), 64 + 40 - 1), 0);
}

TEST(AuditableBlocks, SeeNoTokenThatTheHandOffDoesNotCarry) {
  // For 200 tokens, a window of 40 is carried from 96 on, and row 136 sees 97. Block 5 begins at
  // 160; block 4, at 128, sees 89.
  EXPECT_EQ(FirstAuditableBlock(LayoutOf(32, {0, 40}), 200), 5);
  // For 208 tokens it is carried from 96 on too, a window of 17 from 128 on, and row 144 sees 128.
  EXPECT_EQ(FirstAuditableBlock(LayoutOf(16, {0, 40, 17}), 208), 9);
  for (const int block_size : {16, 32, 48, 64}) {
    for (const int window : {1, 16, 17, 100, 4096}) {
      const KvLayout layout = LayoutOf(block_size, {0, window});
      for (int tokens = 1; tokens < 6000; tokens += 37) {
        ASSERT_LT(FirstAuditableBlock(layout, tokens), layout.BlocksFor(tokens));
      }
    }
  }
}

TEST(AuditableBlocks, MayBeNoneWhereABlockIsLargerThanTheRowsBeyondTheWindow) {
  EXPECT_EQ(FirstAuditableBlock(LayoutOf(256, {0, 40}), 500), 2) << "the sequence has two";
}

TEST(AuditChooser, AShareOfNothingChoosesNothing) {
  std::mt19937_64 random(4);
  AuditChooser chooser = Chooser(0, random);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(chooser.Choose(0, 4).has_value());
}

}  // namespace
}  // namespace baton
