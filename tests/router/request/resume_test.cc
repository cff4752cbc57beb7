#include "router/request/resume.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"
#include "router/request/errors.h"

namespace baton {
namespace {

const absl::Status kDied = absl::UnavailableError("killed");
const absl::Status kTransferFailed = WithErrorInfo(
    absl::UnavailableError("the push broke"), {kReasonKvTransferFailed, kStageTransfer, "p", {}});

const absl::Status kFull = WorkerFullStatus("full", "d", kStageQueue);

PastAttempts Past() { return {.history = AttemptHistory(absl::Seconds(30))}; }

// An attempt that its workers have taken, the prefill worker 1 and the decode worker 2.
Attempt Taken(Attempt::State state = Attempt::Prefilling{}) {
  Attempt attempt;
  attempt.workers.prefill = WorkerName{1, "p"};
  attempt.workers.decode = WorkerName{2, "d"};
  attempt.choices.resize(1);
  attempt.state = std::move(state);
  return attempt;
}

Attempt Local() {
  Attempt attempt = Taken();
  attempt.workers.prefill.reset();
  return attempt;
}

absl::StatusOr<WorkerNeeds> Next(Breakage breakage, const Attempt& broken, PastAttempts& past) {
  return NextNeeds(std::move(breakage), broken, 0, absl::UnixEpoch(), past);
}

TEST(Breakage, NamesTheStageAndTheWorkerThatBroke) {
  const auto told = [](const Breakage& breakage) {
    const ErrorInfo info = *GetErrorInfo(breakage.failure);
    return info.stage + " " + info.worker + " " + info.reason;
  };
  Attempt opening = Taken(Attempt::Opening{});
  opening.accept_by = absl::UnixEpoch();
  EXPECT_EQ(told(DecodeBroken(opening, kDied)), "queue d WORKER_LOST");
  EXPECT_EQ(told(DecodeBroken(Taken(), kDied)), "transfer d WORKER_LOST");
  EXPECT_EQ(told(DecodeBroken(Local(), kDied)), "prefill d WORKER_LOST");
  EXPECT_EQ(told(DecodeBroken(Taken(Attempt::Decoding{}), kDied)), "decode d WORKER_LOST");
  EXPECT_EQ(told(PrefillBroken(Taken(), false, kDied)), "prefill p WORKER_LOST");
  EXPECT_EQ(told(PrefillBroken(Taken(), true, kDied)), "transfer p KV_TRANSFER_FAILED");
}

TEST(Breakage, IsADeathAtTheOpeningWhereTheWorkerDiedBeforeItsFirstWord) {
  using Phase = AttemptHistory::Place::Phase;
  Attempt opening = Taken(Attempt::Opening{});
  opening.accept_by = absl::UnixEpoch();
  ASSERT_TRUE(DecodeBroken(opening, kDied).died.has_value());
  EXPECT_EQ(DecodeBroken(opening, kDied).died->phase, Phase::kOpening);
  ASSERT_TRUE(PrefillBroken(Taken(), false, kDied).died.has_value());
  EXPECT_EQ(PrefillBroken(Taken(), false, kDied).died->phase, Phase::kOpening);
  const absl::Status refused =
      WithErrorInfo(absl::UnavailableError("full"), {kReasonDraining, kStageQueue, "d", {}});
  EXPECT_FALSE(DecodeBroken(opening, refused).died.has_value()) << "it lives";
  const absl::Status too_large = absl::ResourceExhaustedError("larger than max");
  EXPECT_FALSE(DecodeBroken(opening, too_large).died.has_value()) << "gRPC says so itself";
  EXPECT_FALSE(PrefillBroken(Taken(), false, too_large).died.has_value());
  EXPECT_FALSE(DecodeBroken(Taken(), kDied).died.has_value()) << "it has accepted, and waits";
}

TEST(Breakage, IsADeathInThePromptOrTheDecodeWhereAWorkerDiedThatHadBegunThere) {
  Attempt begun = Taken();
  begun.calls.computed_tokens = 700;
  ASSERT_TRUE(PrefillBroken(begun, false, kDied).died.has_value());
  EXPECT_EQ(PrefillBroken(begun, false, kDied).died->computed_tokens, 700u);
  EXPECT_FALSE(PrefillBroken(begun, true, kDied).died.has_value()) << "it had computed all";
  EXPECT_FALSE(PrefillBroken(begun, false, absl::OkStatus()).died.has_value());
  EXPECT_FALSE(PrefillBroken(begun, false, kTransferFailed).died.has_value()) << "it lives";

  EXPECT_FALSE(DecodeBroken(begun, kDied).died.has_value()) << "another worker computes";
  EXPECT_FALSE(DecodeBroken(Local(), kDied).died.has_value());
  Attempt local = Local();
  local.calls.computed_tokens = 5;
  EXPECT_EQ(DecodeBroken(local, kDied).died->phase, AttemptHistory::Place::Phase::kPrefill);
  EXPECT_EQ(DecodeBroken(Taken(Attempt::Decoding{}), kDied).died->phase,
            AttemptHistory::Place::Phase::kDecode);
}

TEST(NextNeeds, AvoidsTheWorkerThatBrokeAndPrefersTheDecodeWorkerThatLives) {
  PastAttempts past = Past();
  const WorkerNeeds after_prefill = *Next(PrefillBroken(Taken(), false, kDied), Taken(), past);
  EXPECT_TRUE(after_prefill.resumed);
  EXPECT_EQ(after_prefill.avoid, std::vector<uint64_t>{1});
  EXPECT_EQ(after_prefill.prefer_decode, 2u);
  const WorkerNeeds after_decode = *Next(DecodeBroken(Taken(), kDied), Taken(), past);
  EXPECT_EQ(after_decode.avoid, std::vector<uint64_t>{2});
  EXPECT_EQ(after_decode.prefer_decode, 0u);
}

TEST(NextNeeds, ATransferThatFailsAgainIsTriedBetweenTwoOthers) {
  PastAttempts past = Past();
  const Breakage breakage = DecodeBroken(Taken(), kTransferFailed);
  EXPECT_TRUE(breakage.avoid.empty()) << "the decode worker says what another broke";
  EXPECT_EQ(Next(breakage, Taken(), past)->avoid, std::vector<uint64_t>{1});
  EXPECT_EQ(Next(breakage, Taken(), past)->avoid, (std::vector<uint64_t>{1, 2}));
}

TEST(NextNeeds, AvoidsBothWorkersThatDoNotFitTogether) {
  const absl::Status mismatch = WithErrorInfo(absl::FailedPreconditionError("another model"),
                                              {.reason = kReasonModelMismatch});
  for (const Breakage& breakage :
       {PrefillBroken(Taken(), false, mismatch), DecodeBroken(Taken(), mismatch)}) {
    PastAttempts past = Past();
    EXPECT_EQ(Next(breakage, Taken(), past)->avoid, (std::vector<uint64_t>{1, 2}));
  }
}

// A decode worker says that KV proved to be wrong, or that it takes none from this pusher.
TEST(NextNeeds, AfterWrongKvAnotherPrefillWorkerIsTried) {
  for (const char* reason : {kReasonKvWrong, kReasonPusherQuarantined}) {
    const absl::Status distrust =
        WithErrorInfo(absl::DataLossError("wrong"), {reason, kStageDecode, "d", {}});
    PastAttempts past = Past();
    const auto needs = Next(DecodeBroken(Taken(), distrust), Taken(), past);
    ASSERT_TRUE(needs.ok()) << needs.status();
    EXPECT_EQ(needs->avoid, std::vector<uint64_t>{1});
    EXPECT_EQ(needs->prefer_decode, 2u);
  }
}

TEST(NextNeeds, ADecodeWorkerThatHeldWrongKvIsNotAvoided) {
  PastAttempts past = Past();
  const absl::Status wrong =
      WithErrorInfo(absl::DataLossError("wrong"), {kReasonKvWrong, kStageDecode, "d", {}});
  EXPECT_TRUE(Next(DecodeBroken(Local(), wrong), Local(), past)->avoid.empty());
}

TEST(NextNeeds, WhatAWorkerSaysAboutTheRequestItselfIsItsEnd) {
  PastAttempts past = Past();
  const auto needs =
      Next(PrefillBroken(Taken(), false,
                         WithErrorInfo(absl::InvalidArgumentError("no"), {.reason = "TOO_LONG"})),
           Taken(), past);
  EXPECT_EQ(needs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(past.last_failure.ok()) << "no attempt follows";
}

TEST(NextNeeds, OneWorkerThatBreaksTheProtocolIsLeftForAnotherAndASecondIsTheEnd) {
  for (const absl::Status& cause :
       {NotBelieved("x"), absl::ResourceExhaustedError("a message of 17 MB"),
        absl::InvalidArgumentError("no")}) {
    PastAttempts past = Past();
    const auto needs = Next(DecodeBroken(Taken(), cause), Taken(), past);
    ASSERT_TRUE(needs.ok()) << needs.status();
    EXPECT_EQ(needs->avoid, std::vector<uint64_t>{2});
    const auto second = Next(DecodeBroken(Taken(), cause), Taken(), past);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(GetErrorInfo(second.status())->worker, "d");
  }
}

TEST(NextNeeds, GivesUpWithTheFailureThatHasLastedForTooLong) {
  PastAttempts past = Past();
  const Breakage breakage = PrefillBroken(Taken(), false, kFull);
  const absl::Time now = absl::UnixEpoch();
  ASSERT_TRUE(NextNeeds(breakage, Taken(), 0, now, past).ok());
  ASSERT_TRUE(NextNeeds(breakage, Taken(), 0, now + absl::Seconds(29), past).ok());
  EXPECT_EQ(NextNeeds(breakage, Taken(), 0, now + absl::Seconds(30), past).status(),
            breakage.failure);
}

TEST(NextNeeds, AnAttemptThatCameToDecodeBeginsThePatienceAnew) {
  PastAttempts past = Past();
  Attempt decoding = Taken(Attempt::Decoding{});
  decoding.choices[0] = {.base = 3, .next_from_decode = 4};
  const Breakage breakage = DecodeBroken(decoding, kFull);
  const absl::Time now = absl::UnixEpoch();
  ASSERT_TRUE(NextNeeds(breakage, decoding, 0, now, past).ok());
  Attempt further = decoding;
  further.choices[0].next_from_decode = 5;
  ASSERT_TRUE(NextNeeds(breakage, further, 0, now + absl::Seconds(40), past).ok());
  EXPECT_FALSE(NextNeeds(breakage, decoding, 0, now + absl::Seconds(80), past).ok())
      << "the one token that comes with the prefill is no gain";
}

TEST(NextNeeds, FourDeathsAtOneOutputArePoison) {
  PastAttempts past = Past();
  const Attempt decoding = Taken(Attempt::Decoding{});
  const Breakage breakage = DecodeBroken(decoding, kDied);
  const absl::Time now = absl::UnixEpoch();
  for (size_t place = 0; place < 3; ++place) {
    const size_t output = place * AttemptHistory::kGuessedOutputs;
    ASSERT_TRUE(NextNeeds(breakage, decoding, output, now, past).ok());
    ASSERT_FALSE(past.history.isolate()) << "they are different places";
  }
  for (int death = 0; death < 3; ++death) {
    ASSERT_TRUE(NextNeeds(breakage, decoding, 70, now, past).ok());
  }
  EXPECT_TRUE(past.history.isolate());
  const auto needs = NextNeeds(breakage, decoding, 70, now, past);
  EXPECT_EQ(needs.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ErrorReason(needs.status()), kReasonPoisonRequest);
}

TEST(NextNeeds, ARefusalDoesNotHideTheBreakThatItFollows) {
  PastAttempts past = Past();
  const Attempt decoding = Taken(Attempt::Decoding{});
  const Breakage broke = DecodeBroken(decoding, kDied);
  ASSERT_TRUE(Next(broke, decoding, past).ok());
  Attempt refused = Taken(Attempt::Opening{});
  refused.accept_by = absl::UnixEpoch();
  const Breakage refusal = DecodeBroken(refused, kFull);
  ASSERT_TRUE(Next(refusal, refused, past).ok());
  EXPECT_EQ(past.why_it_waits, broke.failure);
  EXPECT_EQ(past.last_failure, refusal.failure);
}

TEST(NextNeeds, ALinkOnWhichTwoTransfersFailedIsSpent) {
  PastAttempts past = Past();
  const Breakage breakage = DecodeBroken(Taken(), kTransferFailed);
  EXPECT_TRUE(Next(breakage, Taken(), past)->spent_links.empty());
  EXPECT_TRUE(Next(DecodeBroken(Taken(), kDied), Taken(), past)->spent_links.empty())
      << "a worker that died says nothing of the link";
  const WorkerNeeds needs = *Next(PrefillBroken(Taken(), false, kTransferFailed), Taken(), past);
  ASSERT_EQ(needs.spent_links.size(), 1u);
  EXPECT_EQ(needs.spent_links[0].prefill, 1u);
  EXPECT_EQ(needs.spent_links[0].decode, 2u);
  EXPECT_EQ(needs.spent_links[0].rests_until, absl::UnixEpoch() + LinkTries::kFirstRest);
  EXPECT_EQ(Next(DecodeBroken(Taken(), kDied), Taken(), past)->spent_links.size(), 1u)
      << "whatever ends the attempts that follow";
}

TEST(NextNeeds, ALinkThatThePrefillWorkersFlagsForbidRestsForEver) {
  PastAttempts past = Past();
  const absl::Status forbidden = TransferFailed(
      WithPushFault(absl::PermissionDeniedError("no --insecure"), kPushUnprotected), "p");
  const Breakage breakage = PrefillBroken(Taken(), false, forbidden);
  EXPECT_EQ(PushFaultOf(breakage.failure), kPushUnprotected);
  EXPECT_TRUE(Next(breakage, Taken(), past)->spent_links.empty());
  ASSERT_EQ(Next(breakage, Taken(), past)->spent_links.size(), 1u);
  EXPECT_EQ(Next(breakage, Taken(), past)->spent_links[0].rests_until, absl::InfiniteFuture());
}

}  // namespace
}  // namespace baton
