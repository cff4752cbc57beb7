#include "decode_worker/attempt_fence.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

using Verdict = AttemptFence::Verdict;

internal::v1::AttemptKey Key(uint64_t request, uint32_t attempt, uint32_t choice = 0) {
  internal::v1::AttemptKey key;
  key.set_request_id_high(request);
  key.set_attempt(attempt);
  key.set_choice(choice);
  return key;
}

TEST(AttemptFence, AHigherAttemptEndsALowerOneAndALowerOneComesTooLate) {
  AttemptFence fence;
  std::vector<internal::v1::AttemptKey> superseded;
  EXPECT_EQ(fence.Admit(Key(1, 1), 1, &superseded), Verdict::kCurrent);
  EXPECT_TRUE(superseded.empty());
  EXPECT_EQ(fence.Admit(Key(1, 1), 1, &superseded), Verdict::kDuplicate);
  EXPECT_EQ(fence.Admit(Key(1, 3), 1, &superseded), Verdict::kCurrent);
  ASSERT_EQ(superseded.size(), 1u);
  EXPECT_EQ(superseded[0].attempt(), 1u);
  EXPECT_EQ(fence.Check(Key(1, 1)), Verdict::kSuperseded);
  EXPECT_EQ(fence.Check(Key(1, 3)), Verdict::kCurrent);
  EXPECT_EQ(fence.Check(Key(1, 4)), Verdict::kUnknown);
  EXPECT_EQ(fence.Admit(Key(1, 2), 1, &superseded), Verdict::kSuperseded);
  EXPECT_EQ(fence.Admit(Key(2, 1), 1, &superseded), Verdict::kCurrent);
  EXPECT_EQ(fence.Admit(Key(1, 1, 1), 1, &superseded), Verdict::kCurrent) << "another choice";
}

TEST(AttemptFence, TheEndOfALowerAttemptDoesNotEndTheHigherOne) {
  AttemptFence fence;
  std::vector<internal::v1::AttemptKey> superseded;
  fence.Admit(Key(1, 1), 1, &superseded);
  fence.Admit(Key(1, 2), 1, &superseded);
  fence.End(Key(1, 1), 1);
  EXPECT_EQ(fence.Check(Key(1, 2)), Verdict::kCurrent);
}

TEST(AttemptFence, StandsAfterTheAttemptHasEndedAndForgetsTheOldestFirst) {
  AttemptFence fence(2);
  std::vector<internal::v1::AttemptKey> superseded;
  for (uint64_t request = 1; request <= 3; ++request) {
    fence.Admit(Key(request, 5), 1, &superseded);
    fence.End(Key(request, 5), 1);
  }
  EXPECT_EQ(fence.Check(Key(3, 5)), Verdict::kUnknown);
  EXPECT_EQ(fence.Admit(Key(3, 4), 1, &superseded), Verdict::kSuperseded);
  EXPECT_EQ(fence.Admit(Key(2, 5), 1, &superseded), Verdict::kDuplicate);
  EXPECT_EQ(fence.Admit(Key(1, 1), 1, &superseded), Verdict::kCurrent) << "forgotten";
}

// One attempt at all choices, then each is resumed alone.
TEST(AttemptFence, AnAttemptAtOneChoiceEndsTheOneThatCoversItAndItIsRefusedAtEach) {
  AttemptFence fence;
  std::vector<internal::v1::AttemptKey> superseded;
  EXPECT_EQ(fence.Admit(Key(1, 1), 4, &superseded), Verdict::kCurrent);
  EXPECT_EQ(fence.Admit(Key(1, 2, 2), 1, &superseded), Verdict::kCurrent);
  ASSERT_EQ(superseded.size(), 1u);
  EXPECT_EQ(superseded[0].attempt(), 1u);
  EXPECT_EQ(superseded[0].choice(), 0u);
  EXPECT_EQ(fence.Admit(Key(1, 3, 3), 1, &superseded), Verdict::kCurrent);
  EXPECT_EQ(superseded.size(), 1u);
  fence.End(Key(1, 1), 4);
  EXPECT_EQ(fence.Check(Key(1, 2, 2)), Verdict::kCurrent) << "not its end";
  EXPECT_EQ(fence.Check(Key(1, 1)), Verdict::kUnknown);
  EXPECT_EQ(fence.Admit(Key(1, 1), 4, &superseded), Verdict::kDuplicate);
  // Late, of the choices before they parted.
  AttemptFence other;
  EXPECT_EQ(other.Admit(Key(1, 2, 2), 1, &superseded), Verdict::kCurrent);
  EXPECT_EQ(other.Admit(Key(1, 1), 4, &superseded), Verdict::kSuperseded);
  EXPECT_EQ(other.Check(Key(1, 1)), Verdict::kUnknown) << "refused at all of them";
}

}  // namespace
}  // namespace baton
