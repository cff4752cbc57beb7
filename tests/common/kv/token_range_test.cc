#include "common/kv/token_range.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TokenRange, IsHalfOpen) {
  EXPECT_EQ((TokenRange{16, 50}.size()), 34);
  EXPECT_EQ((TokenRange{16, 16}.size()), 0);
}

TEST(TokenRange, ItsPagesCoverEachOfItsTokensOnceInOrder) {
  EXPECT_THAT(PagesOf({16, 50}),
              ElementsAre(TokenRange{16, 32}, TokenRange{32, 48}, TokenRange{48, 50}));
  EXPECT_THAT(PagesOf({0, 16}), ElementsAre(TokenRange{0, 16}));
  EXPECT_THAT(PagesOf({32, 33}), ElementsAre(TokenRange{32, 33}));
  EXPECT_THAT(PagesOf({32, 32}), IsEmpty());
}

}  // namespace
}  // namespace baton
