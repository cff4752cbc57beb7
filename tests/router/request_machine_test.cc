#include "router/request_machine.h"

#include <gtest/gtest.h>

#include <random>

#include "common/rpc/status.h"
#include "router/timeline.h"
#include "tests/router/machine_harness.h"

namespace baton {
namespace {

using internal::v1::OutputToken;

// "abc", the last token ended by max_tokens.
std::vector<OutputToken> Abc() {
  return {Token(0, 0), Token(1, 1), LastToken(2, 2, v1::FINISH_REASON_LENGTH)};
}

// Up to the open prefill.
MachineHarness Prefilling(uint32_t max_tokens = 3, std::vector<std::string> stop = {}) {
  MachineHarness harness(MachineHarness::Spec(max_tokens, std::move(stop)));
  harness.Choose(true, true);
  harness.DecodeAccepts();
  harness.PrefillStarts();
  return harness;
}

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
  EXPECT_EQ(lost.failure().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(lost.failure()), kReasonKvTransferFailed);
  EXPECT_EQ(GetErrorInfo(lost.failure())->stage, kStageTransfer);
  EXPECT_EQ(GetErrorInfo(lost.failure())->worker, "p");
  EXPECT_EQ(lost.Count<CancelDecode>(), 1);
}

TEST(RequestMachine, AWorkersDeathIsUnavailableWithStageWorkerAndRetry) {
  MachineHarness prefill = Prefilling();
  prefill.PrefillEnds(absl::UnavailableError("killed"));
  EXPECT_EQ(prefill.failure().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorInfo(prefill.failure())->stage, kStagePrefill);
  EXPECT_EQ(GetErrorInfo(prefill.failure())->worker, "p");
  EXPECT_TRUE(RetryDelay(prefill.failure()).has_value());
  EXPECT_EQ(prefill.Count<CancelDecode>(), 1);

  MachineHarness decode = Prefilling();
  decode.PrefillSends(Abc()[0]);
  decode.DecodeCommits();
  decode.DecodeEnds(absl::CancelledError("killed"));
  EXPECT_EQ(decode.failure().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorInfo(decode.failure())->stage, kStageDecode);
  EXPECT_EQ(GetErrorInfo(decode.failure())->worker, "d");
  EXPECT_EQ(decode.Count<CancelPrefill>(), 1);
}

// A push breaks while the prompt is still computed: the worker knows better than the router.
TEST(RequestMachine, TheStageOfAFailureIsTheOneThatTheWorkerNames) {
  MachineHarness harness = Prefilling();
  harness.PrefillEnds(WithErrorInfo(absl::UnavailableError("the push broke"),
                                    {kReasonKvTransferFailed, kStageTransfer, "p", {}}));
  EXPECT_EQ(harness.failure().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorInfo(harness.failure())->stage, kStageTransfer);
  EXPECT_EQ(ErrorReason(harness.failure()), kReasonKvTransferFailed);
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
  harness.Choose(true, false, /*promises_bits=*/false);
  harness.PrefillStarts();
  harness.PrefillSends(LastToken(0, 0, v1::FINISH_REASON_LENGTH));
  harness.PrefillFinishes();
  EXPECT_FALSE(harness.complete().timings().exact());
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
    EXPECT_EQ(broken.failure().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(GetErrorInfo(broken.failure())->worker, "d");
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
    EXPECT_EQ(GetDuration(harness.complete().timings().queue()),
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
    harness.PassTime(absl::Seconds(1));
    EXPECT_EQ(harness.failure().code(), absl::StatusCode::kDeadlineExceeded) << phase;
  }
}

TEST(RequestMachine, WaitsNoLongerForAWorkerThanItsTimeout) {
  for (const bool opened : {false, true}) {
    MachineHarness harness(MachineHarness::Spec(3));
    if (opened) harness.Choose(true, true);
    harness.PassTime(absl::Seconds(30));
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
  MachineHarness harness = Prefilling();
  harness.DecodeSends(Abc());
  harness.PassTime(absl::Seconds(1));
  ASSERT_EQ(harness.Count<Complete>(), 1);
  EXPECT_EQ(harness.Count<CancelDecode>(), 1);
  EXPECT_FALSE(harness.complete().timings().exact()) << "the worker did not say so";
}

TEST(RequestMachine, IgnoresEventsOfOtherAttempts) {
  MachineHarness harness = Prefilling();
  harness.Feed(DecodeEnded{2, absl::UnavailableError("other")});
  harness.Feed(PrefillEnded{0, absl::UnavailableError("other")});
  EXPECT_EQ(harness.terminals(), 0);
}

// Each worker's events come in its own order, the two interleaved in any way; now and then a worker
// dies, the client leaves or time passes. Whatever happens: one terminal, and what was delivered is
// a beginning of the right tokens.
TEST(RequestMachine, EndsOnceWithTheRightTokensUnderAnyInterleaving) {
  int completed = 0, failed = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto chance = [&](uint32_t of) { return random() % of == 0; };
    const uint32_t count = 1 + random() % 8;
    std::vector<OutputToken> right;
    for (uint32_t i = 0; i + 1 < count; ++i) right.push_back(Token(i, random() % 26));
    right.push_back(chance(2) ? LastToken(count - 1, random() % 26, v1::FINISH_REASON_LENGTH)
                              : LastToken(count - 1, 26, v1::FINISH_REASON_STOP));
    const bool faults = chance(2);
    MachineHarness harness(MachineHarness::Spec(
        std::max(count, 2u) +
        random() % 2 * (right.back().finish_reason() == v1::FINISH_REASON_STOP)));
    harness.Choose(true, true);
    harness.DecodeAccepts();

    // The prefill worker: started, first token, then (once committed) finished, end.
    int prefill_step = 0;
    uint32_t sent = 0;
    bool committed = false, decode_finished = false, decode_gone = false, prefill_gone = false;
    for (int turn = 0; turn < 200 && harness.terminals() == 0; ++turn) {
      if (faults && chance(20)) {
        switch (random() % 3) {
          case 0:
            if (!prefill_gone) harness.PrefillEnds(absl::UnavailableError("killed"));
            prefill_gone = true;
            break;
          case 1:
            if (!decode_gone) harness.DecodeEnds(absl::UnavailableError("killed"));
            decode_gone = true;
            break;
          default:
            harness.Feed(ClientCancelled{});
        }
      } else if (chance(2) && !prefill_gone) {
        if (prefill_step == 0)
          harness.PrefillStarts(), ++prefill_step;
        else if (prefill_step == 1)
          harness.PrefillSends(right[0]), ++prefill_step;
        else if (prefill_step == 2 && (committed || count == 1))
          harness.PrefillFinishes(), ++prefill_step;
        else if (prefill_step == 3)
          harness.PrefillEnds(absl::OkStatus()), prefill_gone = true;
      } else if (!decode_gone) {
        // It can commit once the prefill worker has its first token, delivered to us or not.
        if (!committed && count > 1 && prefill_step >= 1 && !prefill_gone) {
          harness.DecodeCommits();
          committed = true;
        } else if (committed && sent < count) {
          std::vector<OutputToken> batch(
              right.begin() + sent,
              right.begin() + std::min(count, sent + 1 + static_cast<uint32_t>(random() % 3)));
          sent += static_cast<uint32_t>(batch.size());
          harness.DecodeSends(batch);
        } else if (count == 1 && prefill_step >= 1 && !prefill_gone && chance(4)) {
          harness.DecodeEnds(absl::UnavailableError("the push was aborted"));
          decode_gone = true;
          if (prefill_step == 1) harness.PrefillSends(right[0]), ++prefill_step;
        } else if (sent == count && !decode_finished) {
          harness.DecodeFinishes();
          decode_finished = true;
        }
      }
      if (chance(8)) harness.PassTime(absl::Milliseconds(random() % 100));
    }
    for (int i = 0; i < 20 && harness.terminals() == 0; ++i) harness.PassTime(absl::Hours(1));
    ASSERT_EQ(harness.terminals(), 1) << seed;
    const size_t visible =
        right.back().finish_reason() == v1::FINISH_REASON_STOP ? count - 1 : count;
    ASSERT_LE(harness.ids.size(), visible) << seed;
    for (size_t i = 0; i < harness.ids.size(); ++i) {
      ASSERT_EQ(harness.ids[i], right[i].token().token_id()) << seed;
    }
    if (harness.Count<Complete>() == 1) {
      ++completed;
      ASSERT_EQ(harness.ids.size(), visible) << seed;
      ASSERT_EQ(harness.complete().usage().completion_tokens(), count) << seed;
    } else {
      ++failed;
      ASSERT_TRUE(faults) << seed << " " << harness.failure();
    }
    const size_t actions_at_end = harness.actions.size();
    harness.DecodeSends({Token(0, 1)});
    harness.Feed(ClientCancelled{});
    ASSERT_EQ(harness.actions.size(), actions_at_end) << "nothing follows the terminal";
  }
  EXPECT_GT(completed, 1500);
  EXPECT_GT(failed, 300);
}

}  // namespace
}  // namespace baton
