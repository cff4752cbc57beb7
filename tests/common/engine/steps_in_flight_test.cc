#include "common/engine/steps_in_flight.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace baton {
namespace {

TEST(StepsInFlight, HaveASequenceUntilItsLastStepIsDone) {
  StepsInFlight steps;
  Sequence sequence(1, 0, SequenceRequest(), 100);
  EXPECT_FALSE(steps.Have(sequence)) << "no step ever had it";
  sequence.last_step = steps.Enqueued();
  EXPECT_TRUE(steps.Have(sequence));
  sequence.last_step = steps.Enqueued();
  steps.Done();
  EXPECT_TRUE(steps.Have(sequence));
  steps.Done();
  EXPECT_FALSE(steps.Have(sequence));
}

TEST(StepsInFlight, KeepABlockUntilTheLastStepThatMayTouchItIsDone) {
  BlockPool pool(3);
  StepsInFlight steps;
  const uint64_t first = steps.Enqueued();
  const uint64_t second = steps.Enqueued();
  steps.Keep({.last_step = second, .block = *pool.TryAllocate()});
  steps.Keep({.last_step = first, .block = *pool.TryAllocate()});
  {
    const std::vector<StepsInFlight::Leaving> left = steps.Done();
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].last_step, first);
    EXPECT_EQ(pool.used_blocks(), 2) << "the caller still has it";
  }
  EXPECT_EQ(pool.used_blocks(), 1);
  steps.Done();
  EXPECT_EQ(pool.used_blocks(), 0);
}

TEST(StepsInFlight, EndsTheProcessWhereNoSuchStepIsInFlight) {
  BlockPool pool(1);
  StepsInFlight steps;
  EXPECT_DEATH(steps.Done(), "a step in flight");
  EXPECT_DEATH(steps.Keep({.last_step = 1, .block = *pool.TryAllocate()}), "a step in flight");
}

}  // namespace
}  // namespace baton
