// Which model an answer is continued with.
#include <gtest/gtest.h>

#include "router/request/request_machine.h"
#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

TEST(RequestResume, AsksForTheModelThatBeganTheAnswerOnceItHasAToken) {
  WorkersChosen chosen = MachineHarness::Chosen(true, true);
  chosen.model = "a";
  MachineHarness harness(MachineHarness::Spec(9));
  EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.model, "");
  StartAttempt(harness, chosen);
  harness.DecodeEnds(kKilled);  // nothing was said yet
  harness.PrefillEnds(absl::CancelledError("cancelled"));
  ASSERT_EQ(harness.Count<ChooseWorkers>(), 2);
  EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.model, "");
  chosen.prefill = WorkerName{3, "p2"};
  chosen.decode = WorkerName{4, "d2"};
  chosen.model = "b";
  StartAttempt(harness, chosen);
  harness.PrefillSends(Abc()[0]);
  harness.DecodeEnds(kKilled);
  harness.PrefillEnds(absl::CancelledError("cancelled"));
  for (int wait = 0; wait < 5; ++wait) harness.PassTime(absl::Seconds(1));
  ASSERT_EQ(harness.Count<ChooseWorkers>(), 3);
  EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.model, "b");
}

}  // namespace
}  // namespace baton
