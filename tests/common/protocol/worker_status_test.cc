#include "common/protocol/worker_status.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(WorkerStatus, AWorkerThatDrainsSaysWhoItIsAndWhenToAskAgain) {
  const absl::Status status = DrainingStatus("decode-1", kStageDecode);
  EXPECT_TRUE(absl::IsUnavailable(status));
  const auto info = GetErrorInfo(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, kReasonDraining);
  EXPECT_EQ(info->stage, kStageDecode);
  EXPECT_EQ(info->worker, "decode-1");
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(100));
}

TEST(WorkerStatus, AFullWorkerSaysOfWhatThereIsTooMuch) {
  const absl::Status status =
      WorkerFullStatus("8 pushes are under way", "prefill-0", kStagePrefill);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(), "8 pushes are under way");
  const auto info = GetErrorInfo(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, kReasonWorkerFull);
  EXPECT_EQ(info->stage, kStagePrefill);
  EXPECT_EQ(info->worker, "prefill-0");
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(100));
}

TEST(WorkerStatus, AnEngineThatHasNoPlaceMakesAFullWorkerAndElseKeepsItsWords) {
  const absl::Status full = RefusedByEngine(absl::ResourceExhaustedError("queue: 8 sequences wait"),
                                            "decode-1", kStageQueue);
  EXPECT_TRUE(TakesNoWork(full)) << full;
  EXPECT_EQ(full.message(), "queue: 8 sequences wait");
  EXPECT_EQ(GetErrorInfo(full)->worker, "decode-1");
  for (const absl::Status& other : {absl::OkStatus(), absl::InvalidArgumentError("x")}) {
    EXPECT_EQ(RefusedByEngine(other, "decode-1", kStageQueue), other);
  }
}

TEST(WorkerStatus, OnlyAReasonSaysThatAWorkerTakesNoWork) {
  EXPECT_TRUE(TakesNoWork(DrainingStatus("w", kStageDecode)));
  EXPECT_TRUE(TakesNoWork(WorkerFullStatus("full", "w", kStageDecode)));
  EXPECT_FALSE(TakesNoWork(absl::OkStatus()));
  EXPECT_FALSE(TakesNoWork(absl::UnavailableError("the worker is draining")));
  EXPECT_FALSE(
      TakesNoWork(WithErrorInfo(absl::ResourceExhaustedError("x"), {.reason = kReasonQueueFull})));
}

// The router must not take such an end for a broken link.
TEST(WorkerStatus, APushThatAWorkerRefusedKeepsItsReasonItsCodeAndItsDelay) {
  for (const absl::Status& cause : {DrainingStatus("decode-1", kStageDecode),
                                    WorkerFullStatus("full", "decode-1", kStageDecode)}) {
    const absl::Status status = TransferFailed(cause, "prefill-0", {{"pushed", "3"}});
    EXPECT_EQ(status.code(), cause.code());
    EXPECT_EQ(status.message(), cause.message());
    EXPECT_TRUE(TakesNoWork(status));
    EXPECT_EQ(RetryDelay(status), RetryDelay(cause));
    const auto info = GetErrorInfo(status);
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->reason, ErrorReason(cause));
    EXPECT_EQ(info->stage, kStageTransfer);
  }
}

TEST(WorkerStatus, AnyOtherEndOfAPushSpeaksAgainstTheLink) {
  for (const absl::Status& cause :
       {absl::UnavailableError("gone"), absl::DeadlineExceededError("late"),
        absl::InternalError("odd"), absl::ResourceExhaustedError("no reason")}) {
    const absl::Status status = TransferFailed(cause, "prefill-0", {{"pushed", "3"}});
    EXPECT_TRUE(absl::IsUnavailable(status)) << cause;
    EXPECT_EQ(status.message(), cause.message());
    const auto info = GetErrorInfo(status);
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->reason, kReasonKvTransferFailed);
    EXPECT_EQ(info->stage, kStageTransfer);
    EXPECT_EQ(info->worker, "prefill-0");
    ASSERT_EQ(info->metadata.size(), 1u);
    EXPECT_EQ(info->metadata[0].second, "3");
  }
}

TEST(WorkerStatus, AModelThatDoesNotFitIsNoFaultOfTheLink) {
  const absl::Status status =
      TransferFailed(absl::FailedPreconditionError("another model"), "prefill-0");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(ErrorReason(status), kReasonModelMismatch);
}

TEST(WorkerStatus, AFailedPushTellsItsFaultAndNoUnknownOne) {
  for (const char* fault : {kPushUnprotected, kPushUnreachable, kPushLargePackets, kPushSilent,
                            kPushRefused, kPushBroke}) {
    const absl::Status status =
        TransferFailed(WithPushFault(absl::AbortedError("x"), fault), "p", {{"pushed", "3"}});
    EXPECT_EQ(PushFaultOf(status), fault);
    EXPECT_EQ(ErrorReason(status), kReasonKvTransferFailed);
    EXPECT_EQ(GetErrorInfo(status)->metadata.size(), 2u);
  }
  for (const absl::Status& status :
       {absl::OkStatus(), absl::UnavailableError("x"),
        WithPushFault(absl::UnavailableError("x"), "of a later version")}) {
    EXPECT_EQ(PushFaultOf(status), kPushOther);
  }
}

}  // namespace
}  // namespace baton
