#include "router/request/request_machine.h"

#include <gtest/gtest.h>

#include "common/base/numerics.h"
#include "common/rpc/duration.h"
#include "common/rpc/status.h"
#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

using internal::v1::OutputToken;

TEST(RequestMachine, OpensDecodeFirstAndPrefillsOnlyWhatWasAccepted) {
  MachineHarness harness(MachineHarness::Spec(3));
  EXPECT_EQ(harness.Count<ChooseWorkers>(), 1);
  harness.Choose(true, true);
  ASSERT_EQ(harness.Count<OpenDecode>(), 1);
  EXPECT_EQ(harness.Count<StartPrefill>(), 0);
  EXPECT_FALSE(harness.Last<OpenDecode>()->start.start().prefill_locally());
  harness.DecodeAccepts();
  ASSERT_EQ(harness.Count<StartPrefill>(), 1);
  const auto& request = harness.Last<StartPrefill>()->request;
  EXPECT_EQ(request.decode_address(), "d:1");
  EXPECT_EQ(request.sequence().token_ids_size(), 3);
  EXPECT_EQ(request.sequence().prompt_length(), 3u);
  EXPECT_EQ(request.sequence().key().attempt(), 1u);
  EXPECT_EQ(request.sequence().capability().size(), 16u);
  EXPECT_EQ(request.sequence().remaining_ms(), 600000u);
}

TEST(RequestMachine, DeliversEachTokenOnceAndCompletesWithUsageAndTimeline) {
  MachineHarness harness = Prefilling();
  harness.PrefillSends(Abc()[0]);
  EXPECT_EQ(harness.text, "a");
  harness.DecodeCommits();
  harness.DecodeSends({Abc()[0], Abc()[1]});
  harness.PrefillFinishes();
  harness.PrefillEnds(absl::OkStatus());
  harness.DecodeSends({Abc()[2]});
  EXPECT_EQ(harness.terminals(), 0) << "the decode worker has not told its part of the timeline";
  harness.DecodeFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_EQ(harness.text, "abc");
  EXPECT_EQ(harness.ids, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(harness.complete().finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(harness.complete().text(), "") << "it was streamed";
  EXPECT_EQ(harness.complete().usage().completion_tokens(), 3u);
  EXPECT_EQ(harness.complete().usage().total_tokens(), 6u);
  EXPECT_EQ(harness.complete().timings().kv_transfer_bytes(), 1000u);
  EXPECT_TRUE(harness.complete().timings().exact());
  EXPECT_EQ(harness.Count<CancelDecode>() + harness.Count<CancelPrefill>(), 0);
  EXPECT_EQ(harness.Count<CloseDecode>(), 1);
}

TEST(RequestMachine, EndsAtAStopStringInsideARunOfGuessedTokensAndCountsNothingBehindIt) {
  for (const bool one_message : {true, false}) {
    MachineHarness harness = Prefilling(/*max_tokens=*/20, {"cd"});
    harness.PrefillSends(Token(0, 0));
    harness.PrefillFinishes();
    harness.PrefillEnds(absl::OkStatus());
    harness.DecodeCommits();
    const std::vector<OutputToken> tokens = {
        Token(0, 0),          Guessed(Token(1, 1)),    Refusing(Token(2, 25), 3),
        Guessed(Token(3, 2)), Guessed(Token(4, 3)),    Guessed(Token(5, 4)),
        Guessed(Token(6, 5)), Refusing(Token(7, 6), 9)};
    if (one_message) {
      harness.DecodeSends(tokens);
    } else {
      for (const OutputToken& token : tokens) harness.DecodeSends({token});
    }
    EXPECT_EQ(harness.Count<SendToDecode>(), 1) << "the worker is told to stop";
    harness.DecodeFinishes();
    ASSERT_EQ(harness.Count<Complete>(), 1);
    EXPECT_EQ(harness.text, "abz");
    EXPECT_EQ(harness.ids, (std::vector<uint32_t>{0, 1, 25, 2, 3}));
    EXPECT_EQ(harness.complete().matched_stop_str(), "cd");
    const v1::Usage& usage = harness.complete().usage();
    EXPECT_EQ(usage.completion_tokens(), 5u);
    EXPECT_EQ(usage.accepted_prediction_tokens(), 3u);
    EXPECT_EQ(usage.rejected_prediction_tokens(), 3u);
  }
}

TEST(RequestMachine, GivesTheSameWhicheverWorkersTokenComesFirst) {
  MachineHarness harness = Prefilling();
  harness.DecodeCommits();
  harness.DecodeSends({Abc()[0], Abc()[1]});
  harness.PrefillSends(Abc()[0]);  // late
  harness.PrefillFinishes();
  harness.DecodeSends({Abc()[2]});
  harness.DecodeFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_EQ(harness.text, "abc");
}

TEST(RequestMachine, UnequalFirstTokensEndTheRequestInternal) {
  for (const bool prefill_first : {true, false}) {
    MachineHarness harness = Prefilling();
    if (prefill_first) harness.PrefillSends(Token(0, 7));
    harness.DecodeCommits();
    harness.DecodeSends({Token(0, 0)});
    if (!prefill_first) harness.PrefillSends(Token(0, 7));
    EXPECT_EQ(harness.failure().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(harness.Count<CancelDecode>(), 1);
    EXPECT_EQ(harness.Count<CancelPrefill>(), 1);
  }
}

TEST(RequestMachine, MissingOrDoubledOutputsEndTheRequestInternal) {
  for (const uint32_t second : {0u, 2u, 5u}) {
    MachineHarness harness = Prefilling(9);
    harness.PrefillSends(Token(0, 0));
    harness.DecodeSends({Token(0, 0), Token(second, 0)});
    EXPECT_EQ(harness.failure().code(), absl::StatusCode::kInternal) << second;
    EXPECT_EQ(GetErrorInfo(harness.failure())->worker, "d");
  }
}

TEST(RequestMachine, TokensThatCannotBeTrueEndTheRequestInternal) {
  OutputToken other_choice = Token(0, 0);
  other_choice.set_choice(1);
  OutputToken without_reason = Token(0, 0);
  without_reason.set_ends_sequence(true);
  for (const OutputToken& token : {other_choice, without_reason, Token(0, 29), Token(1, 0)}) {
    MachineHarness harness = Prefilling();
    harness.PrefillSends(token);
    EXPECT_EQ(harness.failure().code(), absl::StatusCode::kInternal) << token.ShortDebugString();
  }
  MachineHarness harness = Prefilling(2);
  harness.DecodeSends({Token(0, 0), Token(1, 1)});
  EXPECT_EQ(harness.failure().code(), absl::StatusCode::kInternal) << "past max_tokens";
}

TEST(RequestMachine, NothingThatHappensToThePrefillMattersAfterTheCommit) {
  MachineHarness harness = Prefilling();
  harness.PrefillSends(Abc()[0]);
  harness.DecodeCommits();
  harness.PrefillEnds(absl::UnavailableError("killed"));
  harness.PassTime(absl::Seconds(5));
  EXPECT_EQ(harness.machine.attempt(), 1u);
  harness.DecodeSends(Abc());
  harness.DecodeFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_EQ(harness.text, "abc");
}

TEST(RequestMachine, WaitsAQuarterOfASecondForTheCommitOfABrokenPrefill) {
  MachineHarness rescued = Prefilling();
  rescued.PrefillSends(Abc()[0]);
  rescued.PrefillEnds(absl::UnavailableError("killed"));
  rescued.PassTime(absl::Milliseconds(249));
  EXPECT_EQ(rescued.terminals(), 0);
  rescued.DecodeCommits();
  rescued.PassTime(absl::Seconds(5));
  EXPECT_EQ(rescued.terminals(), 0);

  MachineHarness lost = Prefilling();
  lost.PrefillSends(Abc()[0]);
  lost.PrefillEnds(absl::UnavailableError("killed"));
  lost.PassTime(absl::Milliseconds(250));
  EXPECT_EQ(lost.machine.attempt(), 2u);
  EXPECT_EQ(ErrorReason(lost.machine.last_failure()), kReasonKvTransferFailed);
  EXPECT_EQ(GetErrorInfo(lost.machine.last_failure())->stage, kStageTransfer);
  EXPECT_EQ(GetErrorInfo(lost.machine.last_failure())->worker, "p");
}

// A push breaks while the prompt is still computed: the worker knows better than the router.
TEST(RequestMachine, TheStageOfAFailureIsTheOneThatTheWorkerNames) {
  MachineHarness harness = Prefilling();
  harness.PrefillEnds(WithErrorInfo(absl::UnavailableError("the push broke"),
                                    {kReasonKvTransferFailed, kStageTransfer, "p", {}}));
  EXPECT_TRUE(absl::IsUnavailable(harness.machine.last_failure()));
  EXPECT_EQ(GetErrorInfo(harness.machine.last_failure())->stage, kStageTransfer);
  EXPECT_EQ(ErrorReason(harness.machine.last_failure()), kReasonKvTransferFailed);
}

TEST(RequestMachine, OneTokenNeedsNoDecodeWorker) {
  MachineHarness harness(MachineHarness::Spec(1));
  EXPECT_FALSE(harness.Last<ChooseWorkers>()->needs.decode);
  harness.Choose(true, false);
  EXPECT_EQ(harness.Count<OpenDecode>(), 0);
  ASSERT_EQ(harness.Count<StartPrefill>(), 1);
  EXPECT_EQ(harness.Last<StartPrefill>()->request.decode_address(), "");
  harness.PrefillStarts();
  harness.PrefillSends(LastToken(0, 0, v1::FINISH_REASON_LENGTH));
  harness.PrefillFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_EQ(harness.text, "a");
  EXPECT_TRUE(harness.complete().timings().exact());
}

TEST(RequestMachine, OneTokenIsExactWhereItsWorkerPromisesTheSameBits) {
  MachineHarness harness(MachineHarness::Spec(1));
  WorkersChosen chosen = MachineHarness::Chosen(true, false);
  chosen.prefill_numerics = std::string("cuda") + kVaryingNumerics + "/f16";
  harness.Feed(chosen);
  harness.PrefillStarts();
  harness.PrefillSends(LastToken(0, 0, v1::FINISH_REASON_LENGTH));
  harness.PrefillFinishes();
  EXPECT_FALSE(harness.complete().timings().exact());
}

TEST(RequestMachine, ALocalAnswerIsAsExactAsItsNumericsThoughItsWorkerDiesBeforeItSaysSo) {
  for (const std::string backend : {"cpu", "cuda"}) {
    MachineHarness harness(MachineHarness::Spec(3));
    WorkersChosen chosen = MachineHarness::Chosen(false, true);
    chosen.decode_numerics = backend == "cpu" ? "cpu/f16" : backend + kVaryingNumerics + "/f16";
    harness.Feed(chosen);
    harness.DecodeAccepts();
    harness.DecodeSends(Abc());
    harness.DecodeEnds(absl::UnavailableError("killed"));
    ASSERT_EQ(harness.Count<Complete>(), 1);
    EXPECT_EQ(harness.complete().timings().exact(), backend == "cpu");
  }
}

TEST(RequestMachine, AFirstTokenThatEndsTheRequestEndsBothWorkersCalls) {
  MachineHarness harness = Prefilling();
  harness.PrefillSends(LastToken(0, 26, v1::FINISH_REASON_STOP));
  EXPECT_EQ(harness.terminals(), 0);
  harness.PrefillFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_EQ(harness.Count<CancelDecode>(), 1);
  EXPECT_EQ(harness.ids.size(), 0u) << "the token that ends is not among the ids";
  EXPECT_EQ(harness.complete().matched_token_id(), 26u);
  EXPECT_EQ(harness.complete().usage().completion_tokens(), 1u);
}

// The abort of its push may reach us through the decode worker before the token that explains it.
TEST(RequestMachine, ADecodeWorkersEndBeforeTheLastFirstTokenIsForgiven) {
  MachineHarness harness = Prefilling();
  harness.DecodeEnds(absl::UnavailableError("the push was aborted"));
  EXPECT_EQ(harness.terminals(), 0);
  harness.PrefillSends(LastToken(0, 26, v1::FINISH_REASON_STOP));
  harness.PrefillFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);

  for (const bool token_comes : {true, false}) {
    MachineHarness broken = Prefilling();
    broken.DecodeEnds(absl::UnavailableError("killed"));
    if (token_comes) broken.PrefillSends(Token(0, 0));
    if (!token_comes) broken.PassTime(absl::Milliseconds(250));
    EXPECT_EQ(broken.machine.attempt(), 2u);
    EXPECT_EQ(GetErrorInfo(broken.machine.last_failure())->worker, "d");
    EXPECT_EQ(broken.Count<CancelPrefill>(), 1);
  }
}

TEST(RequestMachine, AStopStringEndsTheDecodingAndNothingPastItLeaks) {
  MachineHarness harness = Prefilling(9, {"bc"});
  harness.PrefillSends(Token(0, 0));
  harness.DecodeCommits();
  harness.PrefillFinishes();
  harness.DecodeSends({Token(0, 0), Token(1, 1)});
  EXPECT_EQ(harness.text, "a");
  harness.DecodeSends({Token(2, 2), Token(3, 3)});
  ASSERT_EQ(harness.Count<SendToDecode>(), 1);
  EXPECT_TRUE(harness.Last<SendToDecode>()->message.has_stop());
  harness.DecodeSends({Token(4, 4)});
  harness.DecodeFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_EQ(harness.text, "a");
  EXPECT_EQ(harness.complete().matched_stop_str(), "bc");
  EXPECT_EQ(harness.complete().usage().completion_tokens(), 3u);
  EXPECT_EQ(harness.ids, (std::vector<uint32_t>{0, 1, 2}));
}

TEST(RequestMachine, AStopStringInTheFirstTokenCancelsTheHandOff) {
  MachineHarness harness = Prefilling(9, {"a"});
  harness.PrefillSends(Token(0, 0));
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_EQ(harness.text, "");
  EXPECT_EQ(harness.Count<CancelDecode>(), 1);
  EXPECT_EQ(harness.Count<CancelPrefill>(), 1);
}

TEST(RequestMachine, PrefillsOnTheDecodeWorkerWhenThereIsNoOther) {
  MachineHarness harness(MachineHarness::Spec(3));
  harness.Choose(false, true);
  EXPECT_TRUE(harness.Last<OpenDecode>()->start.start().prefill_locally());
  harness.DecodeAccepts();
  EXPECT_EQ(harness.Count<StartPrefill>(), 0);
  harness.DecodeSends(Abc());
  harness.DecodeFinishes();
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_TRUE(harness.complete().timings().local_prefill());
  EXPECT_EQ(harness.text, "abc");
}

// What the worker then waits for is in its own account.
TEST(RequestMachine, TheTimeInTheRoutersQueueEndsWhenTheWorkerThatPrefillsHasTheRequest) {
  for (const bool local : {false, true}) {
    MachineHarness harness(MachineHarness::Spec(3));
    harness.now += absl::Milliseconds(3);
    harness.Choose(!local, true);
    harness.now += absl::Milliseconds(7);
    harness.DecodeAccepts();
    harness.now += absl::Milliseconds(50);
    if (!local) {
      harness.PrefillSends(Abc()[0]);
      harness.PrefillFinishes();
      harness.DecodeCommits();
    }
    harness.DecodeSends(Abc());
    harness.DecodeFinishes();
    ASSERT_EQ(harness.Count<Complete>(), 1);
    EXPECT_EQ(DurationFromProto(harness.complete().timings().queue()),
              absl::Milliseconds(local ? 3 : 10));
  }
}

TEST(RequestMachine, CancellingInAnyPhaseReachesTheWorkersThatHaveACall) {
  for (int phase = 0; phase < 5; ++phase) {
    MachineHarness harness(MachineHarness::Spec(3));
    if (phase >= 1) harness.Choose(true, true);
    if (phase >= 2) harness.DecodeAccepts();
    if (phase >= 3) harness.PrefillSends(Token(0, 0));
    if (phase >= 4) harness.DecodeCommits();
    harness.Feed(ClientCancelled{});
    EXPECT_EQ(harness.failure().code(), absl::StatusCode::kCancelled) << phase;
    EXPECT_EQ(harness.Count<CancelDecode>(), phase >= 1 ? 1 : 0) << phase;
    EXPECT_EQ(harness.Count<CancelPrefill>(), phase >= 2 ? 1 : 0) << phase;
  }
}

TEST(RequestMachine, TheDeadlineEndsItInAnyPhase) {
  for (int phase = 0; phase < 4; ++phase) {
    RequestSpec spec = MachineHarness::Spec(3);
    spec.deadline = spec.received + absl::Seconds(1);
    MachineHarness harness(std::move(spec));
    if (phase >= 1) harness.Choose(true, true);
    if (phase >= 2) harness.DecodeAccepts();
    if (phase >= 3) harness.DecodeCommits();
    for (int i = 0; i < 10 && harness.terminals() == 0; ++i) harness.PassTime(absl::Seconds(1));
    EXPECT_EQ(harness.failure().code(), absl::StatusCode::kDeadlineExceeded) << phase;
    EXPECT_EQ(harness.now - absl::UnixEpoch(), absl::Seconds(1));
  }
}

TEST(RequestMachine, WaitsNoLongerForAWorkerThanItsTimeout) {
  for (const bool opened : {false, true}) {
    MachineHarness harness(MachineHarness::Spec(3));
    if (opened) harness.Choose(true, true);
    for (int i = 0; i < 20 && harness.terminals() == 0; ++i) harness.PassTime(absl::Seconds(30));
    EXPECT_EQ(harness.now - absl::UnixEpoch(), absl::Seconds(30));
    EXPECT_EQ(harness.failure().code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(RetryDelay(harness.failure()).has_value());
  }
}

TEST(RequestMachine, PausesDecodingForASlowClientAndEndsItWhenItNeverReads) {
  MachineHarness harness = Prefilling(9);
  harness.PrefillSends(Token(0, 0));
  harness.DecodeCommits();
  harness.Feed(ClientBehind{});
  ASSERT_EQ(harness.Count<SendToDecode>(), 1);
  EXPECT_TRUE(harness.Last<SendToDecode>()->message.flow().paused());
  harness.Feed(ClientCaughtUp{});
  ASSERT_EQ(harness.Count<SendToDecode>(), 2);
  EXPECT_FALSE(harness.Last<SendToDecode>()->message.flow().paused());
  harness.Feed(ClientBehind{});
  harness.PassTime(absl::Seconds(30));
  EXPECT_EQ(harness.failure().code(), absl::StatusCode::kResourceExhausted);
}

TEST(RequestMachine, CompletesWithoutATimelineThatNeverComes) {
  for (const bool committed : {false, true}) {
    MachineHarness harness = Prefilling();
    if (committed) harness.DecodeCommits();
    harness.DecodeSends(Abc());
    harness.PassTime(absl::Seconds(1));
    ASSERT_EQ(harness.Count<Complete>(), 1);
    EXPECT_EQ(harness.Count<CancelDecode>(), 1);
    EXPECT_EQ(harness.complete().timings().exact(), committed) << "what the worker said of it";
  }
}

TEST(RequestMachine, IgnoresEventsOfOtherAttempts) {
  MachineHarness harness = Prefilling();
  harness.Feed(DecodeEnded{2, absl::UnavailableError("other")});
  harness.Feed(PrefillEnded{0, absl::UnavailableError("other")});
  EXPECT_EQ(harness.terminals(), 0);
}

}  // namespace
}  // namespace baton
