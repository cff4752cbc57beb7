// Attempts that break, and the ones that go on from there.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"
#include "router/request/request_machine.h"
#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

MachineHarness Decoding(uint32_t max_tokens = 3) {
  MachineHarness harness = Prefilling(max_tokens);
  harness.PrefillSends(Abc()[0]);
  harness.DecodeCommits();
  harness.PrefillFinishes();
  harness.PrefillEnds(absl::OkStatus());
  harness.DecodeSends({Abc()[0], Abc()[1]});
  return harness;
}

WorkersChosen Others() {
  WorkersChosen chosen = MachineHarness::Chosen(true, true);
  chosen.prefill = WorkerName{3, "p2"};
  chosen.decode = WorkerName{4, "d2"};
  return chosen;
}

TEST(RequestResume, ADecodeWorkersDeathIsFollowedByAnAttemptFromTheTokensSoFar) {
  MachineHarness harness = Decoding();
  harness.DecodeEnds(kKilled);
  EXPECT_EQ(harness.terminals(), 0);
  ASSERT_EQ(harness.Count<ChooseWorkers>(), 2) << "at once";
  const WorkerNeeds& needs = harness.Last<ChooseWorkers>()->needs;
  EXPECT_TRUE(needs.resumed);
  EXPECT_EQ(needs.avoid, std::vector<uint64_t>{2});
  EXPECT_EQ(needs.prompt_tokens, 5u);
  EXPECT_EQ(needs.max_total_tokens, 6u);
  EXPECT_FALSE(needs.decode) << "one token remains";

  WorkersChosen chosen = Others();
  chosen.decode.reset();
  harness.Feed(chosen);
  const auto& sequence = harness.Last<StartPrefill>()->request.sequence();
  EXPECT_EQ(sequence.key().attempt(), 2u);
  EXPECT_EQ(sequence.prompt_length(), 3u);
  EXPECT_EQ(std::vector<uint32_t>(sequence.token_ids().begin(), sequence.token_ids().end()),
            (std::vector<uint32_t>{1, 2, 3, 0, 1}));
  harness.PrefillStarts();
  harness.PrefillSends(Abc()[2]);
  harness.PrefillFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1) << harness.failure();
  EXPECT_EQ(harness.text, "abc");
  EXPECT_EQ(harness.complete().usage().completion_tokens(), 3u);
  EXPECT_EQ(harness.complete().timings().attempts(), 2u);
  EXPECT_TRUE(harness.complete().timings().exact());
}

TEST(RequestResume, APrefillWorkersDeathKeepsTheDecodeCallUntilTheNextAttemptHasReachedIt) {
  MachineHarness harness = Prefilling();
  harness.PrefillEnds(kKilled);
  EXPECT_EQ(harness.Count<CancelDecode>(), 0) << "its worker holds pages of the prompt";
  const WorkerNeeds& needs = harness.Last<ChooseWorkers>()->needs;
  EXPECT_EQ(needs.avoid, std::vector<uint64_t>{1});
  EXPECT_EQ(needs.prefer_decode, 2u);
  harness.Choose(true, true);
  EXPECT_EQ(harness.Count<CancelDecode>(), 0);
  harness.DecodeAccepts();
  ASSERT_EQ(harness.Count<CancelDecode>(), 1);
  EXPECT_EQ(harness.Last<CancelDecode>()->attempt, 1u);
  EXPECT_EQ(harness.Last<OpenDecode>()->attempt, 2u);
}

// A decode worker says that KV proved to be wrong, or that it takes none from this pusher.
TEST(RequestResume, WrongKvEndsTheRequestOnceTheClientHasTokensOfThatAttempt) {
  for (const char* reason : {kReasonKvWrong, kReasonPusherQuarantined}) {
    for (const bool has_tokens : {false, true}) {
      MachineHarness harness = Decoding(9);
      harness.DecodeEnds(kKilled);  // what the client has so far came from another attempt
      StartAttempt(harness, Others());
      if (has_tokens) harness.PrefillSends(Token(2, 2));
      harness.DecodeEnds(
          WithErrorInfo(absl::DataLossError("wrong"), {reason, kStageDecode, "d2", {}}));
      if (!has_tokens) {
        harness.PrefillEnds(absl::CancelledError("cancelled"));
        harness.PassTime(absl::Seconds(1));
      }
      EXPECT_EQ(harness.terminals(), has_tokens ? 1 : 0) << reason;
      EXPECT_EQ(harness.Count<ChooseWorkers>(), has_tokens ? 2 : 3) << reason;
      EXPECT_EQ(ErrorReason(harness.failure()), has_tokens ? kReasonKvWrong : "");
    }
  }
}

TEST(RequestResume, WrongKvOfAnAttemptThatBrokeEndsTheRequestIfTheClientHasItsToken) {
  for (const bool has_token : {false, true}) {
    for (const bool cancelled : {false, true}) {
      MachineHarness harness = Prefilling(9);
      if (has_token) harness.PrefillSends(Token(0, 0));
      harness.PrefillEnds(kKilled);
      if (has_token) harness.PassTime(absl::Seconds(1));  // the commit may still come
      if (cancelled) harness.Feed(Others());
      ASSERT_EQ(harness.Count<ChooseWorkers>(), 2);
      ASSERT_EQ(harness.Count<CancelDecode>(), cancelled ? 1 : 0);
      harness.Feed(DecodeEnded{1, KvWrong()});
      EXPECT_EQ(harness.terminals(), has_token ? 1 : 0) << cancelled;
      EXPECT_EQ(ErrorReason(harness.failure()), has_token ? kReasonKvWrong : "") << cancelled;
    }
  }
}

TEST(RequestResume, NoFirstTokenIsTakenOnceItsKvProvedToBeWrong) {
  MachineHarness harness = Prefilling();
  harness.DecodeEnds(KvWrong());
  EXPECT_EQ(harness.Count<CancelPrefill>(), 1);
  EXPECT_EQ(harness.Count<ChooseWorkers>(), 2);
  PrefillMessage late{.attempt = 1, .message = {}};
  *late.message.mutable_first_token() = LastToken(0, 26, v1::FINISH_REASON_STOP);
  harness.Feed(late);
  EXPECT_EQ(harness.terminals(), 0);
  EXPECT_TRUE(harness.machine.log(0).empty());
}

// The stop string is the router's: the decode worker goes on, and may say so meanwhile.
TEST(RequestResume, WrongKvThatIsFoundBeforeTheEndIsToldEndsTheRequestWithDataLoss) {
  MachineHarness harness = Prefilling(10, {"c"});
  harness.PrefillSends(Token(0, 0));
  harness.DecodeCommits();
  harness.PrefillFinishes();
  harness.PrefillEnds(absl::OkStatus());
  harness.DecodeSends({Token(0, 0), Token(1, 1), Token(2, 2)});
  ASSERT_EQ(harness.terminals(), 0) << "it waits for the account of the decode worker";
  harness.DecodeEnds(KvWrong());
  EXPECT_EQ(harness.Count<Complete>(), 0);
  EXPECT_TRUE(absl::IsDataLoss(harness.failure())) << harness.failure();
}

TEST(RequestResume, ADecodeWorkerThatIsNotTakenAgainIsLetGoAtOnce) {
  MachineHarness harness = Prefilling();
  harness.PrefillEnds(kKilled);
  harness.Feed(Others());
  ASSERT_EQ(harness.Count<CancelDecode>(), 1);
  EXPECT_EQ(harness.Last<CancelDecode>()->attempt, 1u);
}

TEST(RequestResume, TheOldDecodeCallEndsWithTheRequest) {
  MachineHarness harness = Prefilling();
  harness.PrefillEnds(kKilled);
  harness.Feed(ClientCancelled{});
  EXPECT_EQ(harness.Count<CancelDecode>(), 1);
  EXPECT_EQ(harness.terminals(), 1);
}

TEST(RequestResume, ATransferThatFailsAgainIsTriedWithTwoOthers) {
  const absl::Status broke = WithErrorInfo(absl::UnavailableError("the push broke"),
                                           {kReasonKvTransferFailed, kStageTransfer, "p", {}});
  MachineHarness harness = Prefilling();
  harness.PrefillEnds(broke);
  EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.prefer_decode, 2u);
  StartAttempt(harness, MachineHarness::Chosen(true, true));
  harness.PrefillEnds(broke);
  EXPECT_EQ(harness.Count<ChooseWorkers>(), 2) << "it waits before the third";
  harness.PassTime(absl::Seconds(1));
  ASSERT_EQ(harness.Count<ChooseWorkers>(), 3);
  const std::vector<uint64_t>& avoid = harness.Last<ChooseWorkers>()->needs.avoid;
  EXPECT_EQ(std::count(avoid.begin(), avoid.end(), 1), 2);
  EXPECT_EQ(std::count(avoid.begin(), avoid.end(), 2), 1);
  EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.prefer_decode, 0u);
}

TEST(RequestResume, APushThatTheDecodeWorkerRefusesSpeaksAgainstNoLinkAndIsTriedOnAnotherOne) {
  const absl::Status full = WorkerFullStatus("too many pushes", "p", kStageTransfer);
  const absl::Status draining = DrainingStatus("p", kStageTransfer);
  for (const absl::Status& refusal : {full, draining}) {
    for (const bool computed : {false, true}) {
      MachineHarness harness = Prefilling(9);
      if (computed) harness.PrefillSends(Token(0, 1));
      harness.PrefillEnds(refusal);
      if (computed) harness.PassTime(absl::Hours(1));
      ASSERT_EQ(harness.Count<ChooseWorkers>(), 2) << refusal;
      EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.avoid, std::vector<uint64_t>{2});
      EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.prefer_decode, 0u);
      EXPECT_EQ(harness.Count<CancelDecode>(), 1);
      const absl::Status& failure = harness.machine.last_failure();
      EXPECT_EQ(failure.code(), refusal.code());
      EXPECT_EQ(ErrorReason(failure), ErrorReason(refusal));
      EXPECT_EQ(GetErrorInfo(failure)->worker, "d");
    }
  }
}

TEST(RequestResume, WhatAWorkerSaysAboutTheRequestItselfEndsIt) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition,
        absl::StatusCode::kInternal, absl::StatusCode::kDeadlineExceeded}) {
    MachineHarness harness = Prefilling();
    harness.PrefillEnds(WithErrorInfo(absl::Status(code, "no"), {.reason = "SEQUENCE_FAILED"}));
    EXPECT_EQ(harness.failure().code(), code);
    EXPECT_EQ(harness.Count<CancelDecode>(), 1);
  }
}

TEST(RequestResume, WorkersThatDoNotFitAreAnsweredWithAnotherPair) {
  const absl::Status mismatch = WithErrorInfo(absl::FailedPreconditionError("another model"),
                                              {.reason = kReasonModelMismatch});
  for (const bool prefill_says_so : {true, false}) {
    MachineHarness harness = Prefilling();
    if (prefill_says_so) {
      harness.PrefillEnds(mismatch);
    } else {
      harness.DecodeEnds(mismatch);
      harness.PassTime(absl::Hours(1));
    }
    ASSERT_EQ(harness.Count<ChooseWorkers>(), 2);
    EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.avoid, (std::vector<uint64_t>{1, 2}));
    EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.prefer_decode, 0u);
  }
}

TEST(RequestResume, ARefusalIsTriedElsewhereButNoLongerThanAWorkerIsWaitedFor) {
  MachineHarness harness(MachineHarness::Spec(3));
  const absl::Time begin = harness.now;
  int refusals = 0;
  while (harness.terminals() == 0 && refusals < 1000) {
    if (harness.Count<ChooseWorkers>() > refusals) {
      harness.Choose(true, true);
      harness.DecodeEnds(WorkerFullStatus("full", "d", kStageQueue));
      ++refusals;
    } else {
      harness.PassTime(absl::Hours(1));
    }
  }
  EXPECT_GT(refusals, 5);
  EXPECT_LT(refusals, 30) << "paced";
  EXPECT_EQ(harness.failure().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(harness.now - begin, absl::Seconds(30));
}

TEST(RequestResume, GivesUpWhereTransfersFailForHalfAMinute) {
  MachineHarness harness(MachineHarness::Spec(3));
  int attempts = 0;
  while (harness.terminals() == 0 && attempts < 1000) {
    if (harness.Count<ChooseWorkers>() > attempts) {
      ++attempts;
      StartAttempt(harness, MachineHarness::Chosen(true, true));
      harness.now += absl::Seconds(3);
      harness.PrefillEnds(WithErrorInfo(absl::UnavailableError("the push broke"),
                                        {kReasonKvTransferFailed, kStageTransfer, "p", {}}));
    } else {
      harness.PassTime(absl::Hours(1));
    }
  }
  EXPECT_EQ(ErrorReason(harness.failure()), kReasonKvTransferFailed);
  EXPECT_TRUE(RetryDelay(harness.failure()).has_value());
  EXPECT_GE(harness.now - absl::UnixEpoch(), absl::Seconds(30));
  EXPECT_LT(harness.now - absl::UnixEpoch(), absl::Seconds(40));
}

TEST(RequestResume, AfterABreakWithoutAWorkerTheClientHearsOfTheBreak) {
  MachineHarness harness = Decoding(9);
  harness.DecodeEnds(kKilled);
  harness.PassTime(absl::Seconds(30));
  EXPECT_EQ(harness.failure().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorInfo(harness.failure())->stage, kStageDecode);
  EXPECT_EQ(GetErrorInfo(harness.failure())->worker, "d");
  EXPECT_TRUE(RetryDelay(harness.failure()).has_value());
}

TEST(RequestResume, ARefusalAfterABreakDoesNotHideTheBreak) {
  MachineHarness harness = Decoding(9);
  harness.DecodeEnds(kKilled);
  harness.Feed(Others());
  harness.DecodeEnds(kKilled);  // it took nothing
  harness.PassTime(absl::Seconds(1));
  harness.PassTime(absl::Seconds(30));
  EXPECT_EQ(GetErrorInfo(harness.failure())->stage, kStageDecode);
  EXPECT_EQ(GetErrorInfo(harness.failure())->worker, "d");
}

// Up to the next attempt's placing: `attempts` have been placed.
void WaitForChoice(MachineHarness& harness, int attempts) {
  for (int i = 0; i < 5 && harness.Count<ChooseWorkers>() <= attempts; ++i) {
    harness.PassTime(absl::Seconds(2));
  }
}

TEST(RequestResume, ARequestThatKillsFourWorkersAtOnePlaceIsPoison) {
  for (const bool local : {false, true}) {
    MachineHarness harness(MachineHarness::Spec(9));
    for (int death = 0; death < 4; ++death) {
      ASSERT_EQ(harness.terminals(), 0) << death;
      WaitForChoice(harness, death);
      harness.Choose(!local, true);
      harness.DecodeAccepts();
      EXPECT_EQ(harness.Last<OpenDecode>()->start.start().sequence().isolate(), death >= 2);
      local ? harness.DecodeComputes(0) : harness.PrefillStarts();
      local ? harness.DecodeEnds(kKilled) : harness.PrefillEnds(kKilled);
    }
    EXPECT_EQ(harness.failure().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(ErrorReason(harness.failure()), kReasonPoisonRequest);
  }
}

TEST(RequestResume, ARequestThatKillsFourWorkersThatOpenItIsPoison) {
  for (const bool by_decode : {false, true}) {
    MachineHarness harness(MachineHarness::Spec(9));
    for (int death = 0; death < 4; ++death) {
      ASSERT_EQ(harness.terminals(), 0) << death;
      WaitForChoice(harness, death);
      EXPECT_EQ(harness.Last<ChooseWorkers>()->needs.alone, death >= 2);
      harness.Choose(true, true);
      EXPECT_FALSE(harness.Last<OpenDecode>()->start.start().sequence().isolate()) << death;
      if (!by_decode) harness.DecodeAccepts();
      by_decode ? harness.DecodeEnds(kKilled) : harness.PrefillEnds(kKilled);
    }
    EXPECT_EQ(harness.failure().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(ErrorReason(harness.failure()), kReasonPoisonRequest);
  }
}

TEST(RequestResume, AWorkerThatDiesWithAPromptThatWaitsThereDoesNotCountAgainstIt) {
  MachineHarness harness(MachineHarness::Spec(9));
  for (int death = 0; death < 8; ++death) {
    ASSERT_EQ(harness.terminals(), 0) << death;
    WaitForChoice(harness, death);
    harness.Choose(false, true);
    harness.DecodeAccepts();
    EXPECT_FALSE(harness.Last<OpenDecode>()->start.start().sequence().isolate()) << death;
    EXPECT_FALSE(harness.Last<ChooseWorkers>()->needs.alone) << death;
    harness.DecodeEnds(kKilled);
  }
}

TEST(RequestResume, AWorkerThatDrainsIsNoDeath) {
  MachineHarness harness = Prefilling(9);
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(harness.terminals(), 0);
    harness.DecodeEnds(WithErrorInfo(absl::UnavailableError("draining"),
                                     {kReasonDraining, kStageDecode, "d", {}}));
    harness.PrefillEnds(absl::CancelledError("cancelled"));
    for (int wait = 0; wait < 5; ++wait) harness.PassTime(absl::Seconds(1));
    StartAttempt(harness, MachineHarness::Chosen(true, true));
    EXPECT_FALSE(harness.Last<StartPrefill>()->request.sequence().isolate());
  }
}

TEST(RequestResume, OtherNumbersOrALossyHandOffAreToldAsNotExact) {
  for (const bool lossy : {false, true}) {
    MachineHarness harness = Prefilling(4);
    harness.PrefillSends(Abc()[0]);
    DecodeMessage committed{.attempt = 1, .message = {}};
    committed.message.mutable_committed()->set_exact(!lossy);
    harness.Feed(committed);
    harness.DecodeSends({Abc()[0], Abc()[1]});
    harness.DecodeEnds(kKilled);
    WorkersChosen chosen = Others();
    if (!lossy) chosen.prefill_numerics = "cuda";
    StartAttempt(harness, chosen);
    harness.PrefillSends(Token(2, 2));
    harness.DecodeCommits();
    harness.PrefillFinishes();
    harness.DecodeSends({Token(2, 2), LastToken(3, 3, v1::FINISH_REASON_LENGTH)});
    harness.DecodeFinishes();
    ASSERT_EQ(harness.Count<Complete>(), 1) << harness.failure();
    EXPECT_EQ(harness.text, "abcd");
    EXPECT_FALSE(harness.complete().timings().exact()) << lossy;
  }
}

TEST(RequestResume, APausedClientsNextAttemptIsPausedToo) {
  MachineHarness harness = Decoding(9);
  harness.Feed(ClientBehind{});
  harness.DecodeEnds(kKilled);
  const int before = harness.Count<SendToDecode>();
  harness.Feed(Others());
  ASSERT_EQ(harness.Count<SendToDecode>(), before + 1);
  EXPECT_TRUE(harness.Last<SendToDecode>()->message.flow().paused());
}

TEST(RequestResume, LateEventsOfAnEarlierAttemptAreIgnored) {
  MachineHarness harness = Decoding(9);
  harness.DecodeEnds(kKilled);
  StartAttempt(harness, Others());
  DecodeMessage late{.attempt = 1, .message = {}};
  *late.message.mutable_tokens()->add_tokens() = Token(2, 9);
  harness.Feed(late);
  harness.Feed(DecodeEnded{1, kKilled});
  harness.Feed(PrefillEnded{1, kKilled});
  EXPECT_EQ(harness.text, "ab");
  EXPECT_EQ(harness.machine.attempt(), 2u);
}

}  // namespace
}  // namespace baton
