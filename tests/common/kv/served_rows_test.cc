#include "common/kv/served_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Layers without a window, and layers that see 40 keys.
KvLayout TwoGroups() {
  const std::vector<int> windows = {0, 40};
  return {.block_size = 32, .groups = KvLayerGroups(windows)};
}

TEST(ServedRows, APrefixServesWhereTheWindowOfItsNextTokenIsHeld) {
  ServedRows rows(TwoGroups(), {.computes = true});
  EXPECT_THAT(rows.Blocks(0), IsEmpty());
  rows.Add({1, kNoBlock});
  EXPECT_FALSE(rows.Serve(32));
  rows.Add({2, 3});
  EXPECT_FALSE(rows.Serve(64)) << "token 64 sees token 25";
  EXPECT_FALSE(rows.Serve(48));
  rows.Add({4, 5});
  EXPECT_TRUE(rows.Serve(71)) << "token 71 sees token 32";
  EXPECT_FALSE(rows.Serve(70));
  EXPECT_TRUE(rows.Serve(96));
  EXPECT_THAT(rows.Blocks(96), ElementsAre(1, kNoBlock, 2, 3, 4, 5));
  rows.Add({6, 7});
  EXPECT_TRUE(rows.Serve(128)) << "token 128 sees token 89";
  EXPECT_THAT(rows.Blocks(128), ElementsAre(1, kNoBlock, 2, kNoBlock, 4, 5, 6, 7));
  EXPECT_THAT(rows.Blocks(96), ElementsAre(1, kNoBlock, 2, 3, 4, 5)) << "what served before";
}

TEST(ServedRows, WhatTheHandOffCarriesIsReadToo) {
  // A hand-off of 160 tokens carries those from 48 on in the layers with a window.
  ServedRows rows(TwoGroups(), {.computes = true, .handed_off = 160});
  rows.Add({1, kNoBlock});
  rows.Add({2, kNoBlock});
  rows.Add({3, 4});
  rows.Add({5, 6});
  EXPECT_FALSE(rows.Serve(128));
  ServedRows received(TwoGroups(), {.handed_off = 160});
  received.Add({1, kNoBlock});
  EXPECT_TRUE(received.Serve(32)) << "it carries all that is read of the layers with a window";
  received.Add({2, kNoBlock});
  EXPECT_TRUE(received.Serve(48));
  EXPECT_FALSE(received.Serve(64));
  EXPECT_THAT(received.Blocks(48), ElementsAre(1, kNoBlock, 2, kNoBlock));
}

TEST(ServedRows, RowsBeforeTheFirstAreHeldElsewhere) {
  ServedRows rows(TwoGroups(), {.computes = true}, 2);
  rows.Add({1, 2});
  EXPECT_TRUE(rows.Serve(80));
  EXPECT_THAT(rows.Blocks(80), ElementsAre(1, 2));
  rows.Add({3, 4});
  rows.Add({5, 6});
  EXPECT_THAT(rows.Blocks(160), ElementsAre(1, kNoBlock, 3, 4, 5, 6));
}

}  // namespace
}  // namespace baton
