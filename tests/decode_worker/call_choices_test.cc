#include "decode_worker/call_choices.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(CallChoices, AreThoseFromTheFirstOn) {
  const CallChoices choices(2, 3);
  for (const uint32_t choice : {2u, 3u, 4u}) EXPECT_TRUE(choices.Has(choice)) << choice;
  for (const uint32_t choice : {0u, 1u, 5u, UINT32_MAX})
    EXPECT_FALSE(choices.Has(choice)) << choice;
}

TEST(CallChoices, AChoiceIsStoppedOnceAndNotAfterItsEnd) {
  CallChoices choices(0, 3);
  EXPECT_TRUE(choices.Stop(1));
  EXPECT_FALSE(choices.Stop(1));
  EXPECT_TRUE(choices.stopped(1));
  EXPECT_TRUE(choices.End(2));
  EXPECT_FALSE(choices.Stop(2));
  EXPECT_FALSE(choices.stopped(2));
}

TEST(CallChoices, AStoppedChoiceStillEndsOnce) {
  CallChoices choices(0, 2);
  EXPECT_TRUE(choices.Stop(0));
  EXPECT_TRUE(choices.End(0));
  EXPECT_FALSE(choices.End(0));
}

TEST(CallChoices, AreOverWhenEachIsStoppedOrEndedAndEndedWhenEachEnded) {
  CallChoices choices(5, 3);
  choices.Stop(5);
  choices.End(6);
  EXPECT_FALSE(choices.all_over());
  choices.End(5);
  EXPECT_FALSE(choices.all_over()) << "one choice counts once";
  choices.Stop(7);
  EXPECT_TRUE(choices.all_over());
  EXPECT_FALSE(choices.all_ended());
  choices.End(7);
  EXPECT_TRUE(choices.all_ended());
}

}  // namespace
}  // namespace baton
