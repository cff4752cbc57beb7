#include "router/fleet/fleet.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "router/calls/thread_loop.h"
#include "tests/router/fleet/ready_worker.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;

class FleetTest : public testing::Test {
 protected:
  ReadyWorkers::Candidates Choose() const {
    return fleet_.Choose({.prompt_tokens = 32, .max_total_tokens = 64}, {}, "", {}, 0);
  }

  ThreadLoop loop_;
  std::vector<bool> circuits_;  // as they opened and closed
  Fleet fleet_{loop_, [this](const WorkerTarget&, bool open) { circuits_.push_back(open); }};
  ReadyWorker prefill_{loop_, fleet_, WORKER_ROLE_PREFILL};
  ReadyWorker decode_{loop_, fleet_, WORKER_ROLE_DECODE};
};

TEST_F(FleetTest, ReadyWorkersAreCandidatesOfTheirRole) {
  const ReadyWorkers::Candidates candidates = Choose();
  ASSERT_EQ(candidates.prefill.size(), 1u);
  ASSERT_EQ(candidates.decode.size(), 1u);
  EXPECT_EQ(candidates.prefill[0].id, prefill_.id());
  EXPECT_EQ(candidates.decode[0].id, decode_.id());
}

TEST_F(FleetTest, AWorkerThatIsNotReadyIsNoCandidateAndIsStillFound) {
  decode_.SetReady(false);
  EXPECT_TRUE(Choose().decode.empty());
  EXPECT_EQ(fleet_.Find(decode_.id()), &decode_.worker());
  decode_.SetReady(true);
  EXPECT_EQ(Choose().decode.size(), 1u);
}

TEST_F(FleetTest, AWorkerThatComesAgainHasANewIdAndNothingThatItWasGiven) {
  const uint64_t before = decode_.id();
  decode_.worker().seen.own_sequences = 3;
  decode_.ComeAgain();
  EXPECT_NE(decode_.id(), before);
  EXPECT_NE(decode_.id(), prefill_.id());
  EXPECT_EQ(fleet_.Find(before), nullptr);
  EXPECT_EQ(fleet_.Find(decode_.id()), &decode_.worker());
  EXPECT_EQ(decode_.seen().own_sequences, 0u);
  EXPECT_EQ(Choose().decode[0].id, decode_.id());
}

TEST_F(FleetTest, NoWorkerIsFoundUnderTheIdOfNone) {
  fleet_.Remove(decode_.worker());
  EXPECT_EQ(fleet_.Find(0), nullptr);
  EXPECT_TRUE(Choose().decode.empty());
}

TEST_F(FleetTest, TellsOnceThatACircuitHasOpenedAndClosedAndPlacementSeesIt) {
  for (int i = 0; i < CircuitBreaker::kFailures; ++i) {
    CircuitBreaker& breaker = decode_.worker().breaker;
    breaker.Failed(breaker.Begin(fleet_.Now()), fleet_.Now());
    fleet_.LoadChanged(decode_.worker());
  }
  EXPECT_EQ(circuits_, (std::vector<bool>{true}));
  EXPECT_FALSE(decode_.seen().takes_requests);
  decode_.worker().breaker.Succeeded();
  fleet_.LoadChanged(decode_.worker());
  fleet_.LoadChanged(decode_.worker());
  EXPECT_EQ(circuits_, (std::vector<bool>{true, false}));
  EXPECT_TRUE(decode_.seen().takes_requests);
}

}  // namespace
}  // namespace baton
