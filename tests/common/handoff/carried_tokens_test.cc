#include "common/handoff/carried_tokens.h"

#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

KvLayout Layout() {
  KvLayout layout = {.layers = 4, .kv_heads = 1, .head_dim = 4, .block_size = 32};
  layout.groups = KvLayerGroups({0, 16, 0, 40});
  return layout;
}

TEST(CarriedTokens, OfALayerWithAWindowAreThoseThatALaterOneOrTheAuditSees) {
  // 200 - 64 is the first row of the audit; it sees 15 or 39 tokens before itself.
  const CarriedTokens carried(Layout(), 200);
  EXPECT_EQ(carried.layer_begins(), (std::vector<int>{0, 112, 0, 96}));
  EXPECT_EQ(carried.carried(), 200u + 88u + 200u + 104u);
  EXPECT_EQ(carried.held(), 0u);
}

TEST(CarriedTokens, OfAShortSequenceAreAll) {
  const CarriedTokens carried(Layout(), 79);
  EXPECT_EQ(carried.layer_begins(), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(carried.carried(), 4 * 79u);
}

TEST(CarriedTokens, BeginAtTheStartTokenUnlessTheLayerBeginsLater) {
  CarriedTokens carried(Layout(), 200);
  carried.SetStart(112);
  EXPECT_EQ(carried.First(0), 112);
  EXPECT_EQ(carried.First(1), 112);
  EXPECT_EQ(carried.First(3), 112);
  EXPECT_EQ(carried.carried(), 4 * 88u);
  EXPECT_EQ(carried.held(), 112u + 0u + 112u + 16u);
  carried.SetStart(64);
  EXPECT_EQ(carried.First(0), 64);
  EXPECT_EQ(carried.First(1), 112);
  EXPECT_EQ(carried.First(3), 96);
  EXPECT_EQ(carried.held(), 2 * 64u);
  carried.SetStart(192);
  EXPECT_EQ(carried.First(1), 192);
  EXPECT_EQ(carried.carried(), 4 * 8u);
  EXPECT_EQ(carried.held(), 192u + 80u + 192u + 96u);
}

}  // namespace
}  // namespace baton
