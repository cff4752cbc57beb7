// A hedged attempt is begun on another decode worker if the first does not accept, or has
// preempted the sequence.
#include <gtest/gtest.h>

#include <vector>

#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

WorkersChosen Elsewhere(uint32_t attempt) {
  WorkersChosen chosen = MachineHarness::Chosen(true, true);
  chosen.attempt = attempt;
  chosen.prefill = WorkerName{3, "p2"};
  chosen.decode = WorkerName{4, "d2"};
  return chosen;
}

void Accepts(MachineHarness& harness, uint32_t attempt) {
  DecodeMessage event{.attempt = attempt, .message = {}};
  event.message.mutable_accepted()->set_cached_tokens(0);
  harness.Feed(event);
}

MachineHarness Opening() {
  MachineHarness harness(MachineHarness::Spec(5));
  harness.Choose(true, true);
  return harness;
}

MachineHarness Preempted() {
  MachineHarness harness = Opening();
  harness.DecodeAccepts();
  harness.PrefillSends(Token(0, 0));
  harness.DecodeCommits();
  harness.PrefillFinishes();
  harness.PrefillEnds(absl::OkStatus());
  harness.DecodeSends({Token(0, 0), Token(1, 1)});
  DecodeMessage event{.attempt = 1, .message = {}};
  event.message.mutable_preempted();
  harness.Feed(event);
  return harness;
}

TEST(HedgedAttempt, AsksForAnotherWorkerWhereTheFirstDoesNotAcceptAndTheFirstThatDoesGoesOn) {
  for (const uint32_t winner : {1u, 2u}) {
    MachineHarness harness = Opening();
    harness.PassTime(absl::Milliseconds(299));
    EXPECT_EQ(harness.Count<ChooseWorkers>(), 1);
    harness.PassTime(absl::Milliseconds(1));
    ASSERT_EQ(harness.Count<ChooseWorkers>(), 2);
    const ChooseWorkers ask = *harness.Last<ChooseWorkers>();
    EXPECT_EQ(ask.needs.beside, 1u);
    EXPECT_EQ(ask.needs.avoid, std::vector<uint64_t>{2});
    harness.Feed(Elsewhere(ask.attempt));
    ASSERT_EQ(harness.Count<OpenDecode>(), 2);
    EXPECT_EQ(harness.Count<CancelDecode>(), 0) << "it keeps its place in the first one's line";
    EXPECT_TRUE(harness.machine.running(1) && harness.machine.running(2));
    Accepts(harness, winner);
    ASSERT_EQ(harness.Count<CancelDecode>(), 1);
    EXPECT_EQ(harness.Last<CancelDecode>()->attempt, 3 - winner);
    ASSERT_EQ(harness.Count<StartPrefill>(), 1);
    EXPECT_EQ(harness.Last<StartPrefill>()->attempt, winner);
    EXPECT_EQ(harness.Last<StartPrefill>()->worker_id, winner == 1 ? 1u : 3u);
    EXPECT_EQ(harness.machine.timings().attempts(), winner);
    EXPECT_EQ(harness.machine.timings().decode_worker(), winner == 1 ? "d" : "d2");
    EXPECT_EQ(harness.machine.breaks(), 0u);
    EXPECT_FALSE(harness.machine.running(3 - winner));
  }
}

TEST(HedgedAttempt, ComesSeldomerTheLongerNobodyAccepts) {
  MachineHarness harness = Opening();
  int opened = 0;
  while (harness.terminals() == 0) {
    harness.PassTime(absl::Hours(1));
    const ChooseWorkers* ask = harness.Last<ChooseWorkers>();
    if (!harness.machine.running(ask->attempt) || ask->needs.beside == 0) continue;
    if (harness.Last<OpenDecode>()->attempt == ask->attempt) continue;
    if (++opened % 2 == 0) {
      harness.Feed(NoneElsewhere{ask->attempt});
    } else {
      harness.Feed(Elsewhere(ask->attempt));
    }
  }
  EXPECT_GE(opened, 4);
  EXPECT_LE(opened, 8);
  EXPECT_EQ(harness.now - absl::UnixEpoch(), absl::Seconds(30))
      << "a worker was waited for so long";
  EXPECT_EQ(harness.Count<CancelDecode>(), harness.Count<OpenDecode>()) << "each call is ended";
}

TEST(HedgedAttempt, AWorkerThatRefusesHurtsNothing) {
  MachineHarness harness = Opening();
  harness.PassTime(absl::Milliseconds(300));
  harness.Feed(Elsewhere(2));
  harness.Feed(DecodeEnded{2, absl::UnavailableError("killed")});
  EXPECT_EQ(harness.terminals(), 0);
  EXPECT_EQ(harness.machine.breaks(), 0u);
  harness.Feed(DecodeEnded{2, absl::UnavailableError("killed")});
  Accepts(harness, 1);
  EXPECT_EQ(harness.Last<StartPrefill>()->attempt, 1u);
}

TEST(HedgedAttempt, IsNotBegunForAPreemptedSequenceWhoseClientIsBehindButForOneThatIsNotAccepted) {
  MachineHarness opening = Opening();
  opening.Feed(ClientBehind{});
  opening.PassTime(absl::Milliseconds(300));
  EXPECT_EQ(opening.Count<ChooseWorkers>(), 2);
  MachineHarness preempted = Preempted();
  preempted.Feed(ClientBehind{});
  preempted.PassTime(absl::Seconds(2));
  EXPECT_EQ(preempted.Count<ChooseWorkers>(), 1);
}

TEST(HedgedAttempt, APreemptedSequenceGoesOnElsewhereAfterTwoSecondsIfItIsAcceptedAtOnce) {
  MachineHarness harness = Preempted();
  harness.PassTime(absl::Milliseconds(1999));
  EXPECT_EQ(harness.Count<ChooseWorkers>(), 1);
  harness.PassTime(absl::Milliseconds(1));
  ASSERT_EQ(harness.Count<ChooseWorkers>(), 2);
  EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.beside, 1u);
  EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.prompt_tokens, 5u);
  harness.Feed(Elsewhere(2));
  EXPECT_EQ(harness.Count<CancelDecode>(), 0);
  Accepts(harness, 2);
  EXPECT_EQ(harness.Last<CancelDecode>()->attempt, 1u);
  const auto& sequence = harness.Last<StartPrefill>()->request.sequence();
  EXPECT_EQ(sequence.token_ids_size(), 5);
  harness.PrefillStarts();
  harness.PrefillSends(Token(2, 2));
  harness.DecodeCommits();
  harness.PrefillFinishes();
  harness.DecodeSends({Token(2, 2), Token(3, 3), LastToken(4, 4, v1::FINISH_REASON_LENGTH)});
  harness.DecodeFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1) << harness.failure();
  EXPECT_EQ(harness.text, "abcde");
  EXPECT_EQ(harness.complete().timings().attempts(), 2u);
  EXPECT_TRUE(harness.complete().timings().exact());
}

TEST(HedgedAttempt, APreemptedSequenceThatRunsAgainStays) {
  for (const bool hedged : {false, true}) {
    MachineHarness harness = Preempted();
    if (hedged) {
      harness.PassTime(absl::Seconds(2));
      harness.Feed(Elsewhere(2));
    }
    DecodeMessage event{.attempt = 1, .message = {}};
    *event.message.mutable_tokens()->add_tokens() = Token(2, 2);
    harness.Feed(event);
    EXPECT_EQ(harness.Count<CancelDecode>(), hedged ? 1 : 0);
    harness.PassTime(absl::Seconds(100));
    EXPECT_EQ(harness.Count<ChooseWorkers>(), hedged ? 2 : 1);
    EXPECT_EQ(harness.text, "abc");
  }
}

TEST(HedgedAttempt, APreemptedSequenceThatNobodyTakesAtOnceStays) {
  MachineHarness harness = Preempted();
  harness.PassTime(absl::Seconds(2));
  harness.Feed(Elsewhere(2));
  harness.PassTime(absl::Milliseconds(250));
  EXPECT_EQ(harness.Last<CancelDecode>()->attempt, 2u);
  Accepts(harness, 2);
  EXPECT_EQ(harness.Count<StartPrefill>(), 1) << "too late";
  EXPECT_TRUE(harness.machine.running(1));
}

}  // namespace
}  // namespace baton
