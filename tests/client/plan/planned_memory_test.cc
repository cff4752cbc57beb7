#include "client/plan/planned_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const std::vector<uint64_t> kChain = {11, 12, 13};  // three pages of 10 tokens

class PlannedMemoryTest : public testing::Test {
 protected:
  // Computes the pages of a prompt, and leaves with so many own tokens beside them.
  void Compute(const std::vector<uint64_t>& pages, int64_t own, uint64_t name) {
    const int held = memory_.HeldPages(pages);
    memory_.Use(pages, held);
    const auto computed = static_cast<int64_t>(pages.size()) - held;
    ASSERT_TRUE(memory_.TryTake(computed * 10 + own));
    for (size_t i = static_cast<size_t>(held); i < pages.size(); ++i) memory_.Enter(pages[i]);
    memory_.Leave(pages, own, name);
  }

  PageHolders holders_;
  PlannedMemory memory_{7, {.tokens = 100, .page_tokens = 10}, holders_};
};

TEST_F(PlannedMemoryTest, KeepsWhatNobodyUsesUntilItsRoomIsNeeded) {
  Compute(kChain, 5, 1);
  EXPECT_EQ(memory_.used(), 0);
  EXPECT_EQ(memory_.cached(), 35);
  EXPECT_EQ(memory_.free(), 100);
  EXPECT_EQ(memory_.HeldPages(kChain), 3);
  ASSERT_TRUE(memory_.TryTake(66));
  EXPECT_EQ(memory_.HeldPages(kChain), 3) << "one own token was enough";
  ASSERT_TRUE(memory_.TryTake(5));
  EXPECT_EQ(memory_.HeldPages(kChain), 2) << "the last page goes before those that it continues";
  ASSERT_TRUE(memory_.TryTake(29));
  EXPECT_EQ(memory_.HeldPages(kChain), 0);
  EXPECT_EQ(memory_.cached(), 0);
  EXPECT_FALSE(memory_.TryTake(1));
  EXPECT_EQ(memory_.used(), 100);
}

TEST_F(PlannedMemoryTest, DropsTheLeastRecentlyUsedFirst) {
  Compute({11, 12}, 0, 1);
  Compute({21, 22}, 0, 2);
  Compute({11, 12}, 0, 3);  // a hit
  ASSERT_TRUE(memory_.TryTake(80));
  EXPECT_EQ(memory_.HeldPages(kChain), 2);
  EXPECT_EQ(memory_.HeldPages(std::vector<uint64_t>{21, 22}), 0);
}

TEST_F(PlannedMemoryTest, HoldsASharedPageOnceAndAsLongAsItIsUsed) {
  ASSERT_TRUE(memory_.TryTake(20));
  memory_.Enter(11);
  memory_.Enter(12);
  ASSERT_TRUE(memory_.TryTake(10));
  memory_.Enter(11);  // somebody else computed it too
  EXPECT_EQ(memory_.used(), 20);
  memory_.Leave(absl::MakeConstSpan(kChain).first(2), 0, 1);
  EXPECT_EQ(memory_.used(), 10);
  EXPECT_FALSE(memory_.TryTake(91));
  ASSERT_TRUE(memory_.TryTake(90));
  EXPECT_EQ(memory_.HeldPages(kChain), 1);
}

TEST_F(PlannedMemoryTest, GivesOwnTokensBackAsFarAsTheyAreThere) {
  Compute({11}, 30, 99);
  ASSERT_TRUE(memory_.TryTake(70));
  EXPECT_EQ(memory_.TakeAgain(99), 20);
  EXPECT_EQ(memory_.used(), 90);
  EXPECT_EQ(memory_.TakeAgain(99), 0);
}

TEST_F(PlannedMemoryTest, TellsWhoHoldsAPage) {
  PlannedMemory other(8, {.tokens = 100, .page_tokens = 10}, holders_);
  Compute(kChain, 0, 1);
  ASSERT_TRUE(other.TryTake(10));
  other.Enter(11);
  EXPECT_THAT(holders_.Of(11), UnorderedElementsAre(7, 8));
  EXPECT_THAT(holders_.Of(13), ElementsAre(7));
  ASSERT_TRUE(memory_.TryTake(100));
  EXPECT_THAT(holders_.Of(11), ElementsAre(8));
  EXPECT_THAT(holders_.Of(13), IsEmpty());
}

}  // namespace
}  // namespace baton
