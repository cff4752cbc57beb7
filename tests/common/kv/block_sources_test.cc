#include "common/kv/block_sources.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

constexpr int kBlockTokens = 32;

class BlockSourcesTest : public testing::Test {
 protected:
  void Take(int blocks) {
    while (static_cast<int>(held_.size()) < blocks) held_.push_back(*pool_.TryAllocate());
  }

  BlockPool pool_{4};
  BlockSources sources_{{.block_size = kBlockTokens}, pool_};
  std::vector<BlockPool::Block> held_;
};

TEST_F(BlockSourcesTest, ABlockThatTwoWroteIsFromEachOfThemAndFromNeitherAlone) {
  Take(2);
  sources_.Opened(held_, 0, "a");
  EXPECT_EQ(sources_.Of(held_[1]), "a");
  sources_.Opened(held_, 48, "a");
  EXPECT_EQ(sources_.Of(held_[1]), "a") << "the same one went on";
  sources_.Opened(held_, 48, "b");
  EXPECT_EQ(sources_.Of(held_[0]), "a");
  EXPECT_EQ(sources_.Of(held_[1]), "");
  held_.erase(held_.begin());
  for (const char* name : {"a", "b", ""}) EXPECT_TRUE(sources_.AnyFrom(held_, name)) << name;
  EXPECT_FALSE(sources_.AnyFrom(held_, "c"));
}

TEST_F(BlockSourcesTest, ABlockThatWasBegunHereIsNotFromTheOneAloneWhoCompletedIt) {
  Take(2);
  sources_.Opened(held_, 16, "a");
  EXPECT_EQ(sources_.Of(held_[0]), "");
  EXPECT_EQ(sources_.Of(held_[1]), "a");
  EXPECT_TRUE(sources_.AnyFrom(held_, "a"));
  EXPECT_TRUE(sources_.AnyFrom(held_, ""));
}

TEST_F(BlockSourcesTest, ABlockThatWasContinuedHereIsNotFromTheOneAloneWhoBeganIt) {
  Take(2);
  sources_.Opened(held_, 0, "a");
  sources_.ContinuedHere(held_[1]);
  EXPECT_EQ(sources_.Of(held_[0]), "a");
  EXPECT_EQ(sources_.Of(held_[1]), "");
  EXPECT_EQ(sources_.NamesOf(held_[1]).count("a"), 1u);
}

TEST_F(BlockSourcesTest, ACopyIsFromWhoeverWroteTheOriginal) {
  Take(1);
  sources_.Opened(held_, 0, "a");
  Take(2);
  sources_.Copied(held_[0], held_[1]);
  EXPECT_EQ(sources_.Of(held_[1]), "a");
}

TEST_F(BlockSourcesTest, NobodyWroteABlockInItsNextLife) {
  Take(4);
  sources_.Opened(held_, 0, "a");
  held_.clear();
  Take(4);
  EXPECT_FALSE(sources_.AnyFrom(held_, "a"));
  EXPECT_TRUE(sources_.AnyFrom(held_, ""));
}

TEST(BlockSourcesOfGroups, EachGroupHasItsOwnBlockOfTheSameTokensAndSomeAreGivenBack) {
  KvLayout layout{.block_size = kBlockTokens};
  const std::vector<int> windows = {0, 40};
  layout.groups = KvLayerGroups(windows);
  BlockPool pool(5);
  BlockSources sources(layout, pool);
  std::vector<BlockPool::Block> held;
  for (int block = 0; block < 5; ++block) held.push_back(*pool.TryAllocate());
  held.emplace_back();  // [rows][groups]; the last row has no block of the second group
  sources.Opened(held, 0, "a");
  sources.Opened(held, kBlockTokens + 16, "b");
  for (const size_t block : {0, 1}) EXPECT_EQ(sources.Of(held[block]), "a");
  for (const size_t block : {2, 3}) EXPECT_EQ(sources.Of(held[block]), "") << "two wrote it";
  EXPECT_EQ(sources.Of(held[4]), "b");
  held.erase(held.begin() + 1, held.begin() + 4);
  held.erase(held.begin());
  EXPECT_TRUE(sources.AnyFrom(held, "b"));
  EXPECT_FALSE(sources.AnyFrom(held, "a"));
  EXPECT_FALSE(sources.AnyFrom(held, "")) << "where no block is, nobody is unknown";
}

}  // namespace
}  // namespace baton
