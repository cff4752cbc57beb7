// Workers that take an attempt and then say nothing, and others that only seem to.
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/rpc/status.h"
#include "router/request/errors.h"
#include "router/request/request_machine.h"
#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

constexpr absl::Duration kSilence = absl::Seconds(30);

// Plays workers that are heard of in time or not.
class SilenceTest : public testing::Test {
 protected:
  SilenceTest() { Restart(MachineHarness::Spec(9)); }

  void Restart(RequestSpec spec) {
    spec.deadline = absl::InfiniteFuture();
    harness_.emplace(std::move(spec), RequestMachineOptions());
  }
  void Start(const WorkersChosen& chosen) { StartAttempt(*harness_, chosen); }
  static WorkersChosen Pair() { return MachineHarness::Chosen(true, true); }
  static WorkersChosen Local() { return MachineHarness::Chosen(false, true); }
  static WorkersChosen Others() {
    WorkersChosen others = Pair();
    others.prefill = WorkerName{3, "p2"};
    others.decode = WorkerName{4, "d2"};
    return others;
  }
  void Decode() {
    Start(Pair());
    harness_->PrefillSends(Token(0, 0));
    harness_->DecodeCommits();
    harness_->PrefillFinishes();
    harness_->PrefillEnds(absl::OkStatus());
    harness_->DecodeSends({Token(0, 0)});
  }
  void SignFromPrefill() {
    PrefillMessage event{.attempt = harness_->machine.attempt(), .message = {}};
    event.message.mutable_alive();
    harness_->Feed(event);
  }
  void SignFromDecode() {
    DecodeMessage event{.attempt = harness_->machine.attempt(), .message = {}};
    event.message.mutable_alive();
    harness_->Feed(event);
  }
  // Time passes, to the moment and not to the next timer.
  void Pass(absl::Duration time) {
    const absl::Time end = harness_->now + time;
    while (harness_->timer <= end && harness_->terminals() == 0) {
      harness_->PassTime(end - harness_->now);
    }
    harness_->now = end;
  }
  int attempts() const { return static_cast<int>(harness_->machine.attempt()); }
  const std::vector<uint64_t>& avoided() const {
    return harness_->Last<ChooseWorkers>()->needs.avoid;
  }
  void ExpectSilent(const char* worker) const {
    const absl::Status& failure = harness_->machine.last_failure();
    EXPECT_EQ(failure.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(ErrorReason(failure), kReasonAttemptSilent);
    EXPECT_EQ(GetErrorInfo(failure)->worker, worker);
  }

  std::optional<MachineHarness> harness_;
};

TEST_F(SilenceTest, APrefillWorkerThatForgotThePromptIsLeftForAnother) {
  Start(Pair());
  Pass(absl::Seconds(20));
  SignFromDecode();
  Pass(absl::Seconds(9));
  EXPECT_EQ(attempts(), 1);
  Pass(absl::Seconds(1));
  ASSERT_EQ(attempts(), 2);
  EXPECT_EQ(avoided(), std::vector<uint64_t>{1});
  ExpectSilent("p");
  ASSERT_EQ(harness_->Count<CancelPrefill>(), 1);
  EXPECT_EQ(ErrorReason(harness_->Last<CancelPrefill>()->why), kReasonAttemptSilent);
  EXPECT_EQ(harness_->Count<CancelDecode>(), 0) << "its worker may hold pages of the prompt";
  EXPECT_EQ(harness_->terminals(), 0);
}

TEST_F(SilenceTest, ADecodeWorkerThatForgotTheSequenceIsLeftForAnother) {
  for (const bool local : {false, true}) {
    Restart(MachineHarness::Spec(9));
    if (local) {
      harness_->Feed(Local());
      harness_->DecodeAccepts();
      harness_->DecodeComputes(1);
    } else {
      Decode();
    }
    Pass(kSilence);
    ASSERT_EQ(attempts(), 2) << local;
    EXPECT_EQ(avoided(), std::vector<uint64_t>{2});
    ExpectSilent("d");
    ASSERT_EQ(harness_->Count<CancelDecode>(), 1);
    EXPECT_EQ(ErrorReason(harness_->Last<CancelDecode>()->why), kReasonAttemptSilent);
  }
}

// The first token of the prefill worker may still end the request.
TEST_F(SilenceTest, ADecodeWorkerThatForgotItsReservationIsLeftWithThePrompt) {
  Start(Pair());
  Pass(absl::Seconds(20));
  SignFromPrefill();
  Pass(absl::Seconds(10) + RequestMachineOptions().broken_attempt_wait);
  ASSERT_EQ(attempts(), 2);
  EXPECT_EQ(avoided(), std::vector<uint64_t>{2});
  ExpectSilent("d");
  EXPECT_EQ(harness_->Count<CancelPrefill>(), 1);
}

TEST_F(SilenceTest, AnHonestWaitOfTenMinutesIsNotEnded) {
  Start(Pair());
  for (int sign = 0; sign < 60; ++sign) {
    Pass(absl::Seconds(10));
    SignFromPrefill();
    SignFromDecode();
  }
  EXPECT_EQ(attempts(), 1);
  harness_->PrefillSends(Token(0, 0));
  harness_->DecodeCommits();
  for (int sign = 0; sign < 60; ++sign) {  // preempted, say
    Pass(absl::Seconds(10));
    SignFromDecode();
  }
  EXPECT_EQ(attempts(), 1);
  EXPECT_EQ(harness_->terminals(), 0);
  EXPECT_EQ(harness_->machine.breaks(), 0u);
}

TEST_F(SilenceTest, TheTimeCountsFromTheLastMessageOfAnyKind) {
  Start(Local());
  for (uint32_t tokens = 0; tokens < 60; ++tokens) {
    Pass(absl::Seconds(25));
    harness_->DecodeComputes(tokens);
  }
  EXPECT_EQ(attempts(), 1);
  Pass(kSilence);
  EXPECT_EQ(attempts(), 2);
}

TEST_F(SilenceTest, AnAnswerThatMakesTokensForHoursIsNotCut) {
  Restart(MachineHarness::Spec(2000));
  Decode();
  for (uint32_t index = 1; index < 1500; ++index) {
    Pass(absl::Seconds(20));
    harness_->DecodeSends({Token(index, index % 26)});
  }
  EXPECT_GT(harness_->now - absl::UnixEpoch(), absl::Hours(8));
  EXPECT_EQ(harness_->terminals(), 0);
  EXPECT_EQ(attempts(), 1);
}

TEST_F(SilenceTest, OnceTheHandOffIsCommittedThePrefillWorkerMayBeSilent) {
  Start(Pair());
  harness_->PrefillSends(Token(0, 0));
  harness_->DecodeCommits();
  for (int sign = 0; sign < 10; ++sign) {
    Pass(absl::Seconds(10));
    SignFromDecode();
  }
  EXPECT_EQ(attempts(), 1);
}

// The router does not read the Decode call then.
TEST_F(SilenceTest, ADecodeWorkerIsNotMissedWhileItsClientIsBehind) {
  Decode();
  Pass(absl::Seconds(20));
  harness_->Feed(ClientBehind{});
  Pass(absl::Seconds(29));
  EXPECT_EQ(attempts(), 1);
  harness_->Feed(ClientCaughtUp{});
  Pass(absl::Seconds(29));
  EXPECT_EQ(attempts(), 1);
  Pass(absl::Seconds(1));
  EXPECT_EQ(attempts(), 2) << "from when it is read again";
}

TEST_F(SilenceTest, NoTokenMovesTheTimerOfTheRequest) {
  Restart(MachineHarness::Spec(2000));
  Decode();
  const int timers = harness_->Count<SetTimer>();
  for (uint32_t index = 1; index < 100; ++index) {
    Pass(absl::Milliseconds(10));
    harness_->DecodeSends({Token(index, 1)});
  }
  EXPECT_LE(harness_->Count<SetTimer>(), timers + 2);
}

// It lives: the request has not killed it.
TEST_F(SilenceTest, SilenceIsNoDeathAndEndsTheRequestOnceItHasLasted) {
  for (int attempt = 1; harness_->terminals() == 0; ++attempt) {
    ASSERT_LE(attempt, 4);
    Start(attempt % 2 == 1 ? Pair() : Others());
    EXPECT_FALSE(harness_->Last<OpenDecode>()->start.start().sequence().isolate());
    const int asked = harness_->Count<ChooseWorkers>();
    while (harness_->terminals() == 0 && harness_->Count<ChooseWorkers>() == asked) {
      harness_->PassTime(absl::Hours(1));
    }
  }
  EXPECT_EQ(harness_->failure().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(harness_->failure()), kReasonAttemptSilent);
  EXPECT_LE(harness_->now - absl::UnixEpoch(), absl::Seconds(65));
}

TEST_F(SilenceTest, SignsOfLifeAloneDoNotKeepARequestForEver) {
  Start(Pair());
  const absl::Time begin = harness_->now;
  while (harness_->terminals() == 0) {
    ASSERT_LE(harness_->now - begin, absl::Hours(2));
    SignFromPrefill();
    SignFromDecode();
    Pass(absl::Seconds(10));
  }
  EXPECT_EQ(harness_->failure().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ErrorReason(harness_->failure()), "NO_PROGRESS");
  EXPECT_GE(harness_->now - begin, RequestMachineOptions().progress_timeout);
}

}  // namespace
}  // namespace baton
