#include "router/request/errors.h"

#include <optional>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// What a worker of Baton's says of the request.
absl::Status Said(absl::StatusCode code, const std::string& reason = "SEQUENCE_FAILED") {
  return WithErrorInfo(absl::Status(code, "x"), {.reason = reason});
}

TEST(RequestErrors, WhatAWorkerSaysAboutTheRequestKeepsItsCodeAndTheRestIsUnavailable) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition,
        absl::StatusCode::kResourceExhausted, absl::StatusCode::kOutOfRange,
        absl::StatusCode::kUnimplemented, absl::StatusCode::kInternal,
        absl::StatusCode::kDeadlineExceeded}) {
    EXPECT_EQ(AttemptBroken(kStageDecode, "d", kReasonWorkerLost, Said(code)).code(), code);
  }
  for (const absl::StatusCode code :
       {absl::StatusCode::kCancelled, absl::StatusCode::kUnknown, absl::StatusCode::kAborted,
        absl::StatusCode::kUnavailable, absl::StatusCode::kNotFound, absl::StatusCode::kOk}) {
    EXPECT_TRUE(absl::IsUnavailable(
        AttemptBroken(kStageDecode, "d", kReasonWorkerLost, absl::Status(code, "x"))))
        << code;
  }
}

TEST(RequestErrors, WhatOnlyGrpcOrAStrangersProgramSaysOfTheRequestIsTheWorkersFault) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition,
        absl::StatusCode::kResourceExhausted, absl::StatusCode::kOutOfRange,
        absl::StatusCode::kUnimplemented}) {
    for (const absl::Status& cause : {absl::Status(code, "x"), Said(code, "no reason"),
                                      Said(code, ""), Said(code, std::string(64, 'A'))}) {
      const absl::Status told = AttemptBroken(kStageDecode, "d", kReasonWorkerLost, cause);
      EXPECT_EQ(told.code(), absl::StatusCode::kInternal) << told;
      EXPECT_EQ(ErrorReason(told), kReasonProtocolError);
      EXPECT_EQ(RetryDelay(told), std::nullopt);
    }
  }
  EXPECT_EQ(NotBelieved("x").code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ErrorReason(NotBelieved("x")), kReasonProtocolError);
}

TEST(RequestErrors, AWorkersTextsAreShortAndPrintAndItsNumbersAreBounded) {
  const std::string raw = "\x1b]0;pwned\x07" + std::string(1 << 20, 'x');
  absl::Status cause = WithErrorInfo(absl::UnavailableError(raw),
                                     {.reason = "WORKER_FULL", .stage = raw, .worker = raw});
  cause = WithRetryInfo(std::move(cause), absl::Hours(1000));
  const absl::Status told = AttemptBroken(kStageDecode, "d", kReasonWorkerLost, cause);
  EXPECT_LT(told.message().size(), 600u);
  for (const char c : told.message()) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << int{c};
  EXPECT_EQ(ErrorReason(told), "WORKER_FULL");
  EXPECT_EQ(GetErrorInfo(told)->stage, kStageDecode);
  EXPECT_EQ(GetErrorInfo(told)->worker, "d");
  EXPECT_EQ(RetryDelay(told), kMaxRetryDelay);
}

TEST(RequestErrors, AStreamOnWhichTheWorkerHeardNothingSaysNothingAboutTheRequest) {
  const absl::Status silent = WithErrorInfo(absl::DeadlineExceededError("no message came"),
                                            {.reason = kReasonSilentStream});
  const absl::Status broken = AttemptBroken(kStageDecode, "d", kReasonWorkerLost, silent);
  EXPECT_TRUE(absl::IsUnavailable(broken));
  EXPECT_THAT(std::string(broken.message()), HasSubstr("MTU")) << "the call's beginning arrived";
}

TEST(RequestErrors, WhatAWorkerSaysOfItsOwnFailureIsLeftOutAndTheDetailsStay) {
  const absl::Status broken =
      AttemptBroken(kStageDecode, "decode-2", kReasonWorkerLost,
                    absl::UnavailableError("ipv4:10.0.0.3:50051: connection refused"));
  const absl::Status told = WithoutWorkersWords(broken);
  EXPECT_EQ(told.message(), "decode on worker 'decode-2' failed; the router's log tells why");
  EXPECT_EQ(told.code(), broken.code());
  EXPECT_EQ(ErrorReason(told), kReasonWorkerLost);
  EXPECT_EQ(RetryDelay(told), RetryDelay(broken));
  for (const absl::Status& kept : {absl::OkStatus(), RouterDraining(), NoReadyWorker("x"),
                                   AttemptBroken(kStageDecode, "d", kReasonWorkerLost,
                                                 Said(absl::StatusCode::kInvalidArgument))}) {
    EXPECT_EQ(WithoutWorkersWords(kept), kept);
  }
}

TEST(RequestErrors, ABrokenAttemptTellsWhereItBroke) {
  const absl::Status plain =
      AttemptBroken(kStagePrefill, "p-1", kReasonWorkerLost, absl::UnavailableError("gone"));
  EXPECT_EQ(plain.message(), "prefill on worker 'p-1' failed: gone");
  EXPECT_EQ(GetErrorInfo(plain)->reason, kReasonWorkerLost);
  EXPECT_EQ(GetErrorInfo(plain)->stage, kStagePrefill);
  EXPECT_EQ(GetErrorInfo(plain)->worker, "p-1");
  // The cause's own reason and stage count more.
  const absl::Status cause = WithErrorInfo(
      absl::UnavailableError("link"), {.reason = kReasonKvTransferFailed, .stage = kStageTransfer});
  const absl::Status told = AttemptBroken(kStagePrefill, "p-1", kReasonWorkerLost, cause);
  EXPECT_EQ(told.message(), "transfer on worker 'p-1' failed: link");
  EXPECT_EQ(ErrorReason(told), kReasonKvTransferFailed);
  EXPECT_EQ(GetErrorInfo(told)->stage, kStageTransfer);
  EXPECT_EQ(AttemptBroken(kStageDecode, "d", kReasonWorkerLost, absl::OkStatus()).message(),
            "decode on worker 'd' failed: it ended the call before its work was done");
}

TEST(RequestErrors, OnlyAnErrorThatPassesSaysWhenToComeAgain) {
  const auto delay = [](const absl::Status& cause) {
    return RetryDelay(AttemptBroken(kStageDecode, "d", kReasonWorkerLost, cause));
  };
  EXPECT_EQ(delay(absl::UnavailableError("x")), kRetryDelay);
  EXPECT_EQ(delay(Said(absl::StatusCode::kResourceExhausted)), kRetryDelay);
  EXPECT_EQ(delay(WithRetryInfo(absl::UnavailableError("x"), absl::Seconds(7))), absl::Seconds(7));
  EXPECT_EQ(delay(Said(absl::StatusCode::kInvalidArgument)), std::nullopt);
  EXPECT_EQ(delay(absl::InternalError("x")), std::nullopt);
  EXPECT_EQ(RetryDelay(NoReadyWorker("x")), kRetryDelay);
  EXPECT_EQ(RetryDelay(RouterDraining()), kRetryDelay);
  EXPECT_EQ(RetryDelay(DeadlinePassed(kStageQueue)), std::nullopt);
}

TEST(RequestErrors, APredictedWaitIsToldWithinItsBounds) {
  for (const auto& refusal : {&QueueFull, &NoWorkerInTime}) {
    EXPECT_EQ(RetryDelay(refusal("x", absl::ZeroDuration())), kRetryDelay);
    EXPECT_EQ(RetryDelay(refusal("x", absl::Milliseconds(1))), kMinRetryDelay);
    EXPECT_EQ(RetryDelay(refusal("x", absl::Seconds(3))), absl::Seconds(3));
    EXPECT_EQ(RetryDelay(refusal("x", absl::Hours(1))), kMaxRetryDelay);
    EXPECT_TRUE(absl::IsResourceExhausted(refusal("x", absl::Seconds(3))));
  }
  EXPECT_EQ(ErrorReason(QueueFull("x")), kReasonQueueFull);
  EXPECT_EQ(ErrorReason(NoWorkerInTime("x", absl::Seconds(1))), kReasonQueueTime);
}

// The stage and the worker of the last attempt help whoever looks for the cause.
TEST(RequestErrors, APoisonRequestIsNotTriedAgainAndKeepsWhereItFailed) {
  const absl::Status last =
      AttemptBroken(kStageDecode, "d-2", kReasonWorkerLost, absl::UnavailableError("gone"));
  const absl::Status status = PoisonRequest(last);
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_EQ(ErrorReason(status), kReasonPoisonRequest);
  EXPECT_EQ(GetErrorInfo(status)->stage, kStageDecode);
  EXPECT_EQ(GetErrorInfo(status)->worker, "d-2");
  EXPECT_EQ(RetryDelay(status), std::nullopt);
  EXPECT_NE(status.message().find("decode on worker 'd-2' failed: gone"), absl::string_view::npos);
}

// The message has nothing of the workers' own words: clients get it as it is.
TEST(RequestErrors, WorkersThatStoodStillAreBothNamedToEveryClient) {
  const absl::Status status = WorkersStoodStill(kStagePrefill, {"decode-3", "prefill-7"});
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_EQ(ErrorReason(status), kReasonPoisonRequest);
  EXPECT_EQ(GetErrorInfo(status)->stage, kStagePrefill);
  EXPECT_EQ(RetryDelay(status), std::nullopt);
  EXPECT_NE(status.message().find("workers 'decode-3' and 'prefill-7' both stood still"),
            absl::string_view::npos);
  EXPECT_EQ(WithoutWorkersWords(status), status);
}

TEST(RequestErrors, ABrokenProtocolNamesTheWorkerAndWhatItDid) {
  const absl::Status status = ProtocolBroken(kStageDecode, "d-2", "a token out of order");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "worker 'd-2' broke the protocol: a token out of order");
  EXPECT_EQ(GetErrorInfo(status)->worker, "d-2");
}

TEST(RequestErrors, ADurationIsCutToMilliseconds) {
  EXPECT_EQ(InMilliseconds(absl::Microseconds(1234567)), "1.234s");
  EXPECT_EQ(InMilliseconds(absl::Microseconds(999)), "0");
}

TEST(RequestErrors, AHandOffThatFailedOnItsLinkNamesBothEndsAndTheReason) {
  const absl::Status cause = TransferFailed(
      WithPushFault(absl::UnavailableError("connection refused"), kPushUnreachable), "raw name");
  const LinkEnds ends{.prefill = "prefill-1", .decode = "decode-2"};
  const absl::Status told =
      AttemptBroken(kStagePrefill, "prefill-1", kReasonWorkerLost, cause, ends);
  EXPECT_EQ(told.message(),
            "hand-off from worker 'prefill-1' to worker 'decode-2' failed: connection refused");
  EXPECT_EQ(PushFaultOf(told), kPushUnreachable);
  EXPECT_EQ(WithoutWorkersWords(told).message(),
            "hand-off from worker 'prefill-1' to worker 'decode-2' failed; the router's log tells "
            "why");
  // Whatever else ends an attempt is no matter of the link.
  EXPECT_EQ(AttemptBroken(kStageDecode, "decode-2", kReasonWorkerLost,
                          absl::UnavailableError("gone"), ends)
                .message(),
            "decode on worker 'decode-2' failed: gone");
}

}  // namespace
}  // namespace baton
