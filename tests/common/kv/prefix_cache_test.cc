#include "common/kv/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace baton {
namespace {

using Block = BlockPool::Block;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kSmallBlock = 4;

Hash128 EverythingCollides(const Hash128&, absl::string_view) { return {}; }

class PrefixCacheTest : public testing::Test {
 protected:
  void Make(int blocks, PrefixHashFunction hash = ChainHash) {
    pool_ = std::make_unique<BlockPool>(blocks);
    cache_ =
        std::make_unique<PrefixCache>("model", KvLayout{.block_size = kSmallBlock}, *pool_, hash);
  }
  // Blocks for whole blocks of `tokens`, computed, entered and still used.
  std::vector<Block> Compute(const std::vector<int32_t>& tokens, const std::string& salt = "") {
    std::vector<Block> blocks;
    while ((blocks.size() + 1) * kSmallBlock <= tokens.size()) {
      blocks.push_back(*pool_->TryAllocate());
      cache_->Insert(tokens, salt, blocks, blocks.size() - 1);
    }
    return blocks;
  }
  std::vector<int32_t> Find(const std::vector<int32_t>& tokens, const std::string& salt) const {
    return cache_->Find(tokens, salt, {.computes = true});
  }
  static std::vector<int32_t> Ids(const std::vector<Block>& blocks) {
    std::vector<int32_t> ids;
    for (const Block& block : blocks) ids.push_back(block.id());
    return ids;
  }
  static void GiveBack(std::vector<Block>& blocks) {
    while (!blocks.empty()) blocks.pop_back();
  }

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<PrefixCache> cache_;
};

TEST_F(PrefixCacheTest, FindsTheLongestPrefixOfWholeBlocksAndNeverTheLastToken) {
  Make(10);
  const std::vector<Block> blocks = Compute({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const std::vector<int32_t> ids = Ids(blocks);
  EXPECT_THAT(Find({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, ""), ids);
  EXPECT_THAT(Find({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, ""), ElementsAre(ids[0], ids[1]));
  EXPECT_THAT(Find({1, 2, 3, 4, 5, 6, 7, 7, 9, 10, 11, 12, 13}, ""), ElementsAre(ids[0]));
  EXPECT_THAT(Find({1, 2, 3, 4}, ""), IsEmpty());
  EXPECT_THAT(Find({5, 6, 7, 8, 9}, ""), IsEmpty()) << "a block in the middle begins nothing";
}

// What a new reader of the announced pages is told.
std::vector<uint64_t> Announced(PrefixCache& cache) {
  cache.pages().Publish();
  PrefixPages::Position position;
  return cache.pages().Read(position, 1000).added;
}

TEST(PrefixCachePages, ThePagesOfHeldBlocksAreAnnouncedByTheNamesThatTheirTokensHave) {
  constexpr int kBlock = 32;
  BlockPool pool(3);
  PrefixCache cache("model", {.block_size = kBlock}, pool);
  std::vector<int32_t> tokens(2 * kBlock + 5);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i);
  std::vector<Block> blocks;
  for (size_t index = 0; index < 2; ++index) {
    blocks.push_back(*pool.TryAllocate());
    cache.Insert(tokens, "salt", blocks, index);
  }
  std::vector<uint64_t> expected;
  Hash128 link = PrefixRoot("model");
  for (size_t at = 0; at < 2 * kBlock; at += kPrefixPageTokens) {
    link = PrefixLink(link, absl::MakeConstSpan(tokens).subspan(at, kPrefixPageTokens),
                      at == 0 ? "salt" : "");
    expected.push_back(link.high);
  }
  EXPECT_THAT(Announced(cache), testing::UnorderedElementsAreArray(expected));

  // Another that differs in the middle of the first block shares its first page.
  std::vector<int32_t> fork = tokens;
  fork[kPrefixPageTokens] = -1;
  {
    std::vector<Block> other;
    other.push_back(*pool.TryAllocate());
    cache.Insert(fork, "salt", other, 0);
    EXPECT_THAT(Announced(cache), testing::SizeIs(5));
  }
  // All blocks are given out anew: nothing is held any more.
  while (!blocks.empty()) blocks.pop_back();
  const Block first = *pool.TryAllocate();
  EXPECT_THAT(Announced(cache), testing::UnorderedElementsAreArray(expected))
      << "the fork was used least recently";
  const Block second = *pool.TryAllocate(), third = *pool.TryAllocate();
  EXPECT_THAT(Announced(cache), IsEmpty());
}

TEST_F(PrefixCacheTest, SaltsDoNotSeeEachOther) {
  Make(10);
  const std::vector<Block> blocks = Compute({1, 2, 3, 4}, "a");
  EXPECT_THAT(Find({1, 2, 3, 4, 5}, "a"), Ids(blocks));
  EXPECT_THAT(Find({1, 2, 3, 4, 5}, ""), IsEmpty());
  EXPECT_THAT(Find({1, 2, 3, 4, 5}, "b"), IsEmpty());
}

TEST_F(PrefixCacheTest, ACollisionOfHashesIsNeverServed) {
  Make(10, EverythingCollides);
  const std::vector<Block> first = Compute({1, 2, 3, 4}, "a");
  EXPECT_THAT(Find({1, 2, 3, 4, 5}, "a"), Ids(first));
  EXPECT_THAT(Find({1, 2, 3, 4, 5}, "b"), IsEmpty());
  EXPECT_THAT(Find({1, 2, 3, 9, 5}, "a"), IsEmpty());
  const std::vector<Block> second = Compute({6, 7, 8, 9});
  EXPECT_THAT(Find({6, 7, 8, 9, 5}, ""), Ids(second)) << "the later one is held";
  EXPECT_THAT(Find({1, 2, 3, 4, 5}, "a"), IsEmpty());
}

TEST_F(PrefixCacheTest, WhatContinuesAnotherBeginningIsNotServed) {
  // Blocks of equal tokens collide, whatever comes before them.
  Make(10, [](const Hash128&, absl::string_view bytes) { return ChainHash({}, bytes); });
  std::vector<Block> blocks = Compute({1, 2, 3, 4, 9, 9, 9, 9});
  const std::vector<Block> other = Compute({5, 6, 7, 8});
  EXPECT_THAT(Find({5, 6, 7, 8, 9, 9, 9, 9, 0}, ""), Ids(other));
  EXPECT_THAT(Find({1, 2, 3, 4, 9, 9, 9, 9, 0}, ""), Ids(blocks));
}

TEST_F(PrefixCacheTest, AnUnusedBlockIsFreeAndEvictedOnlyWhenNoOtherIs) {
  Make(4);
  std::vector<Block> blocks = Compute({1, 2, 3, 4, 5, 6, 7, 8});
  GiveBack(blocks);
  EXPECT_EQ(pool_->used_blocks(), 0);
  EXPECT_EQ(pool_->kept_blocks(), 2);
  EXPECT_EQ(pool_->available_blocks(), 4);
  std::vector<Block> taken;
  for (int i = 0; i < 2; ++i) taken.push_back(*pool_->TryAllocate());
  EXPECT_EQ(Find({1, 2, 3, 4, 5, 6, 7, 8, 9}, "").size(), 2u);
  taken.push_back(*pool_->TryAllocate());
  EXPECT_EQ(Find({1, 2, 3, 4, 5, 6, 7, 8, 9}, "").size(), 1u) << "leaves go first";
  taken.push_back(*pool_->TryAllocate());
  EXPECT_EQ(Find({1, 2, 3, 4, 5, 6, 7, 8, 9}, "").size(), 0u);
  EXPECT_FALSE(pool_->TryAllocate().has_value());
}

TEST_F(PrefixCacheTest, TheLeastRecentlyUsedGoesFirst) {
  Make(3);
  std::vector<Block> a = Compute({1, 1, 1, 1}), b = Compute({2, 2, 2, 2}),
                     c = Compute({3, 3, 3, 3});
  GiveBack(a);
  GiveBack(b);
  GiveBack(c);
  const auto use = [&](int32_t token) {
    const std::vector<int32_t> found = Find({token, token, token, token, token}, "");
    ASSERT_EQ(found.size(), 1u);
    pool_->TryReserve(1)->TakeKept(found[0]);
  };
  use(1);
  const auto held = [&](int32_t token) {
    return !Find({token, token, token, token, token}, "").empty();
  };
  const Block first = *pool_->TryAllocate();
  EXPECT_TRUE(held(1) && !held(2) && held(3));
  const Block second = *pool_->TryAllocate();
  EXPECT_TRUE(held(1) && !held(3));
}

TEST_F(PrefixCacheTest, AHeldBlockThatIsUsedIsNeverGivenOut) {
  Make(2);
  std::vector<Block> blocks = Compute({1, 2, 3, 4});
  const std::vector<int32_t> found = Find({1, 2, 3, 4, 5}, "");
  const Block shared = pool_->Share(found[0]);
  GiveBack(blocks);
  const std::optional<Block> other = pool_->TryAllocate();
  EXPECT_NE(other->id(), shared.id());
  EXPECT_FALSE(pool_->TryAllocate().has_value());
  EXPECT_THAT(Find({1, 2, 3, 4, 5}, ""), found);
}

TEST_F(PrefixCacheTest, EqualBlocksComputedTwiceBecomeOneWhileTheFirstIsUsed) {
  Make(6);
  const std::vector<Block> first = Compute({1, 2, 3, 4});
  const std::vector<Block> second = Compute({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(second[0].id(), first[0].id());
  EXPECT_EQ(pool_->used_blocks(), 2);
}

TEST_F(PrefixCacheTest, AComputedBlockTakesThePlaceOfAFreeOneThatHoldsTheSame) {
  Make(6);
  std::vector<Block> own;
  own.push_back(*pool_->TryAllocate());
  std::vector<Block> first = Compute({1, 2, 3, 4, 5, 6, 7, 8});
  const int32_t continued = first[1].id();
  GiveBack(first);
  EXPECT_TRUE(cache_->Insert({1, 2, 3, 4}, "", own, 0).empty());
  EXPECT_EQ(pool_->used_blocks(), 1);
  EXPECT_EQ(pool_->kept_blocks(), 1) << "one copy is enough";
  EXPECT_THAT(Find({1, 2, 3, 4, 5, 6, 7, 8, 9}, ""), ElementsAre(own[0].id(), continued));
}

TEST_F(PrefixCacheTest, WhatIsForgottenIsNotFoundNorWhatContinuesIt) {
  Make(6);
  std::vector<Block> blocks = Compute({1, 2, 3, 4, 5, 6, 7, 8});
  cache_->Forget(blocks[0].id());
  EXPECT_THAT(Find({1, 2, 3, 4, 5, 6, 7, 8, 9}, ""), IsEmpty());
  const std::vector<Block> again = Compute({1, 2, 3, 4});
  EXPECT_NE(again[0].id(), blocks[0].id());
  EXPECT_THAT(Find({1, 2, 3, 4, 5, 6, 7, 8, 9}, ""), Ids(again));
  // A sequence that still computes behind a forgotten block enters nothing.
  blocks.push_back(*pool_->TryAllocate());
  blocks.erase(blocks.begin() + 1);
  cache_->Insert({1, 2, 3, 4, 5, 6, 7, 8}, "", blocks, 1);
  EXPECT_THAT(Find({1, 2, 3, 4, 5, 6, 7, 8, 9}, ""), Ids(again));
  pool_->CheckInvariants();
}

}  // namespace
}  // namespace baton
