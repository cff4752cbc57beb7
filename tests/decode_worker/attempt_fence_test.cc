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
  uint32_t superseded = 9;
  EXPECT_EQ(fence.Admit(Key(1, 1), &superseded), Verdict::kCurrent);
  EXPECT_EQ(superseded, 0u);
  EXPECT_EQ(fence.Admit(Key(1, 1), &superseded), Verdict::kDuplicate);
  EXPECT_EQ(fence.Admit(Key(1, 3), &superseded), Verdict::kCurrent);
  EXPECT_EQ(superseded, 1u);
  EXPECT_EQ(fence.Check(Key(1, 1)), Verdict::kSuperseded);
  EXPECT_EQ(fence.Check(Key(1, 3)), Verdict::kCurrent);
  EXPECT_EQ(fence.Check(Key(1, 4)), Verdict::kUnknown);
  EXPECT_EQ(fence.Admit(Key(1, 2), &superseded), Verdict::kSuperseded);
  EXPECT_EQ(fence.Admit(Key(2, 1), &superseded), Verdict::kCurrent);
  EXPECT_EQ(fence.Admit(Key(1, 1, 1), &superseded), Verdict::kCurrent) << "another choice";
}

TEST(AttemptFence, TheEndOfALowerAttemptDoesNotEndTheHigherOne) {
  AttemptFence fence;
  uint32_t superseded = 0;
  fence.Admit(Key(1, 1), &superseded);
  fence.Admit(Key(1, 2), &superseded);
  fence.End(Key(1, 1));
  EXPECT_EQ(fence.Check(Key(1, 2)), Verdict::kCurrent);
}

TEST(AttemptFence, StandsAfterTheAttemptHasEndedAndForgetsTheOldestFirst) {
  AttemptFence fence(2);
  uint32_t superseded = 0;
  for (uint64_t request = 1; request <= 3; ++request) {
    fence.Admit(Key(request, 5), &superseded);
    fence.End(Key(request, 5));
  }
  EXPECT_EQ(fence.Check(Key(3, 5)), Verdict::kUnknown);
  EXPECT_EQ(fence.Admit(Key(3, 4), &superseded), Verdict::kSuperseded);
  EXPECT_EQ(fence.Admit(Key(2, 5), &superseded), Verdict::kDuplicate);
  EXPECT_EQ(fence.Admit(Key(1, 1), &superseded), Verdict::kCurrent) << "forgotten";
}

}  // namespace
}  // namespace baton
