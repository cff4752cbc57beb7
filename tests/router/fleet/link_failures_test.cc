#include "router/fleet/link_failures.h"

#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

const absl::Time kFirstFailed = absl::UnixEpoch() + absl::Hours(1);

TEST(LinkFailures, EachLinkAndReasonIsALineOfTheLogAndThenTheSeldomerTheMoreFollow) {
  LinkFailures failures;
  EXPECT_NE(failures.Failed(1, 2, "silent", "x", kFirstFailed), nullptr);
  EXPECT_EQ(failures.Failed(1, 2, "silent", "x", kFirstFailed), nullptr);
  EXPECT_NE(failures.Failed(1, 2, "broke", "x", kFirstFailed), nullptr) << "another reason";
  EXPECT_NE(failures.Failed(1, 3, "silent", "x", kFirstFailed), nullptr) << "another link";
  int lines = 0;
  uint64_t told = 0;
  for (int second = 1; second <= 3600; ++second) {
    const LinkFailure* due =
        failures.Failed(1, 2, "silent", "y", kFirstFailed + absl::Seconds(second));
    if (due == nullptr) continue;
    ++lines;
    told = due->count;
    EXPECT_EQ(due->text, "y");
  }
  EXPECT_GE(lines, 10);
  EXPECT_LE(lines, 20);
  EXPECT_GT(told, 3000u);
}

TEST(LinkFailures, AreForgottenWhenTheLinkWorksOrAnEndIsGoneOrAfterAWhile) {
  LinkFailures failures;
  failures.Failed(1, 2, "silent", "x", kFirstFailed);
  failures.Failed(1, 2, "broke", "x", kFirstFailed);
  failures.Failed(1, 3, "silent", "x", kFirstFailed);
  failures.Failed(4, 3, "silent", "x", kFirstFailed);
  EXPECT_EQ(failures.Get(kFirstFailed).size(), 4u);
  failures.Succeeded(1, 2);
  EXPECT_EQ(failures.Get(kFirstFailed).size(), 2u);
  failures.Forget(4);
  ASSERT_EQ(failures.Get(kFirstFailed).size(), 1u);
  EXPECT_EQ(failures.Get(kFirstFailed)[0].prefill, 1u);
  EXPECT_EQ(failures.Get(kFirstFailed)[0].decode, 3u);
  EXPECT_TRUE(failures.Get(kFirstFailed + LinkFailures::kReported).empty());
  failures.Forget(3);
  EXPECT_TRUE(failures.Get(kFirstFailed).empty());
}

TEST(LinkFailures, AreBounded) {
  LinkFailures failures;
  for (uint64_t i = 0; i < 1000; ++i) {
    failures.Failed(i, 1, "silent", "x", kFirstFailed + absl::Seconds(i));
  }
  const absl::Time end = kFirstFailed + absl::Seconds(1000);
  ASSERT_LE(failures.Get(end).size(), LinkFailures::kMaxFailures);
  EXPECT_EQ(failures.Get(end).back().prefill, 999u);
}

}  // namespace
}  // namespace baton
