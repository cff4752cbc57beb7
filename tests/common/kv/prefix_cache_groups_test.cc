// The prefix cache where layers have windows, so that a row of a block table has several blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/layout.h"
#include "common/kv/prefix_cache.h"
#include "tests/common/kv/prefix_rows.h"

namespace baton {
namespace {

using Block = BlockPool::Block;
using testing::ElementsAre;
using testing::IsEmpty;

class PrefixCacheGroupsTest : public testing::Test {
 protected:
  // Two groups: layers without a window, and layers that see 40 keys.
  PrefixCacheGroupsTest() : cache_("model", LayoutOf({0, 40}), pool_) {}

  // A block table of these rows, computed and entered.
  std::vector<Block> Compute(const std::string& rows) {
    std::vector<Block> blocks;
    for (size_t row = 0; row < rows.size(); ++row) {
      blocks.push_back(*pool_.TryAllocate());
      blocks.push_back(*pool_.TryAllocate());
      cache_.Insert(TokensOf(rows), "", blocks, row);
    }
    return blocks;
  }
  static std::vector<int32_t> Ids(const std::vector<Block>& blocks) {
    std::vector<int32_t> ids;
    for (const Block& block : blocks) ids.push_back(block.empty() ? kNoBlock : block.id());
    return ids;
  }
  static void GiveBack(std::vector<Block>& blocks) {
    while (!blocks.empty()) blocks.pop_back();
  }
  std::vector<int32_t> Find(const std::string& rows, const KvNeed& need = {.computes = true}) {
    return cache_.Find(TokensOf(rows), "", need);
  }

  BlockPool pool_{12};
  PrefixCache cache_;
};

TEST_F(PrefixCacheGroupsTest, AHitHasOfAWindowOnlyWhatTheNextTokenSees) {
  const std::vector<Block> blocks = Compute("abcd");
  const std::vector<int32_t> ids = Ids(blocks);
  EXPECT_THAT(Find("abcd"),
              ElementsAre(ids[0], kNoBlock, ids[2], kNoBlock, ids[4], ids[5], ids[6], ids[7]));
  EXPECT_THAT(Find("abx"), ElementsAre(ids[0], ids[1], ids[2], ids[3]));
  EXPECT_THAT(Find("abcd", {.handed_off = 128}),
              ElementsAre(ids[0], ids[1], ids[2], ids[3], ids[4], ids[5], ids[6], ids[7]))
      << "a hand-off of 128 tokens carries those from 16 on";
}

TEST_F(PrefixCacheGroupsTest, BlocksThatASequenceGaveBackEarlyServeUntilTheyAreEvicted) {
  std::vector<Block> blocks = Compute("abcd");
  const std::vector<int32_t> ids = Ids(blocks);
  blocks[1] = Block();
  blocks[3] = Block();
  EXPECT_EQ(pool_.kept_blocks(), 2);
  EXPECT_THAT(Find("abx"), ElementsAre(ids[0], ids[1], ids[2], ids[3]));
  std::vector<Block> taken;
  for (int i = 0; i < 5; ++i) taken.push_back(*pool_.TryAllocate());
  EXPECT_EQ(taken.back().id(), ids[1]);
  EXPECT_THAT(Find("abx"), IsEmpty()) << "token 64 sees token 25";
  EXPECT_EQ(Find("abcd").size(), 8u);
}

TEST_F(PrefixCacheGroupsTest, WhereAnAnchorEndsTheOtherBlocksOfItsRowAreNotKept) {
  std::vector<Block> blocks = Compute("ab");
  const int32_t anchor = blocks[2].id();
  GiveBack(blocks);
  EXPECT_EQ(pool_.kept_blocks(), 4);
  cache_.Forget(anchor);
  EXPECT_EQ(pool_.kept_blocks(), 2);
  pool_.CheckInvariants();
}

TEST_F(PrefixCacheGroupsTest, ARowWithoutBlocksOfAWindowIsCompletedByWhoComputesThem) {
  const std::vector<int32_t> tokens = TokensOf("ab");
  std::vector<Block> received;
  for (int row = 0; row < 2; ++row) {
    received.push_back(*pool_.TryAllocate());
    received.emplace_back();
    cache_.Insert(tokens, "", received, static_cast<size_t>(row));
  }
  EXPECT_THAT(Find("ab"), IsEmpty());
  EXPECT_EQ(Find("ab", {.handed_off = 500}).size(), 4u);
  std::vector<Block> own;
  for (int block = 0; block < 4; ++block) own.push_back(*pool_.TryAllocate());
  const std::vector<int32_t> before = Ids(own);
  for (const size_t row : {0, 1}) {
    const std::vector<PrefixCache::Replaced> replaced = cache_.Insert(tokens, "", own, row);
    ASSERT_EQ(replaced.size(), 1u) << "the anchor alone is used already";
    EXPECT_EQ(replaced[0].group, 0);
    EXPECT_EQ(replaced[0].block.id(), before[2 * row]);
  }
  EXPECT_THAT(Ids(own), ElementsAre(received[0].id(), before[1], received[2].id(), before[3]));
  EXPECT_THAT(Find("ab"), Ids(own));
}

TEST_F(PrefixCacheGroupsTest, ABlockOfWhichAHandOffCarriedAPartIsNotEntered) {
  const std::vector<int32_t> tokens = TokensOf("abcde");
  std::vector<Block> blocks;
  for (int block = 0; block < 10; ++block) blocks.push_back(*pool_.TryAllocate());
  // A hand-off of 151 tokens carries those from 48 on in the layers with a window.
  for (size_t row = 0; row < 4; ++row) cache_.Insert(tokens, "", blocks, row, 151);
  const std::vector<int32_t> ids = Ids(blocks);
  EXPECT_THAT(Find("abcd"),
              ElementsAre(ids[0], kNoBlock, ids[2], kNoBlock, ids[4], ids[5], ids[6], ids[7]));
  EXPECT_THAT(Find("abcx"), IsEmpty()) << "token 96 sees token 57, whose row came in part";
}

TEST_F(PrefixCacheGroupsTest, APageIsAnnouncedForEachKindOfLayersThatHoldsIt) {
  std::vector<Block> blocks = Compute("a");
  std::set<uint64_t> expected = PagesOf("a", std::nullopt);
  expected.merge(PagesOf("a", 40));
  EXPECT_EQ(expected.size(), 4u);
  EXPECT_EQ(AnnouncedPages(cache_), expected);
  cache_.Forget(blocks[1].id());
  EXPECT_EQ(AnnouncedPages(cache_), PagesOf("a", std::nullopt));
  cache_.Forget(blocks[0].id());
  EXPECT_THAT(AnnouncedPages(cache_), IsEmpty());
}

}  // namespace
}  // namespace baton
