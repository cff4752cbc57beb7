#include "router/request/link_tries.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

const absl::Time kFailedAt = absl::UnixEpoch() + absl::Hours(1);

TEST(LinkTries, ALinkIsSpentAfterTwoFailuresAndRestsTheLongerTheMoreFollow) {
  LinkTries tries;
  tries.Failed(1, 2, false, kFailedAt);
  EXPECT_TRUE(tries.spent().empty());
  tries.Failed(1, 3, false, kFailedAt);
  tries.Failed(4, 2, false, kFailedAt);
  EXPECT_TRUE(tries.spent().empty()) << "these are three links";
  absl::Duration rest = LinkTries::kFirstRest;
  for (int failures = 2; failures < 20; ++failures) {
    tries.Failed(1, 2, false, kFailedAt);
    ASSERT_EQ(tries.spent().size(), 1u);
    EXPECT_EQ(tries.spent()[0].prefill, 1u);
    EXPECT_EQ(tries.spent()[0].decode, 2u);
    EXPECT_EQ(tries.spent()[0].rests_until, kFailedAt + rest);
    rest = std::min(2 * rest, LinkTries::kLongestRest);
  }
}

TEST(LinkTries, ALinkThatFailsForGoodRestsForEver) {
  LinkTries tries;
  tries.Failed(1, 2, true, kFailedAt);
  EXPECT_TRUE(tries.spent().empty());
  tries.Failed(1, 2, false, kFailedAt);
  ASSERT_EQ(tries.spent().size(), 1u);
  EXPECT_EQ(tries.spent()[0].rests_until, absl::InfiniteFuture());
}

TEST(LinkTries, RemembersABoundedNumberOfLinks) {
  LinkTries tries;
  for (uint64_t decode = 1; decode <= 1000; ++decode) {
    tries.Failed(1, decode, false, kFailedAt);
    tries.Failed(1, decode, false, kFailedAt);
  }
  ASSERT_EQ(tries.spent().size(), LinkTries::kMaxLinks);
  EXPECT_EQ(tries.spent().back().decode, 1000u);
}

}  // namespace
}  // namespace baton
