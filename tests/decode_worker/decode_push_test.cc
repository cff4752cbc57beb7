#include "decode_worker/decode_push.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"
#include "common/worker/convert.h"
#include "tests/common/engine/engine_harness.h"

namespace baton {
namespace {

using internal::v1::PushRefused;

// A sequence that waits for its KV, and the push of it that nobody makes.
class DecodePushTest : public testing::Test {
 protected:
  DecodePushTest() {
    options_.shape = ShapeFromLayout(harness_.engine().cache().layout(), "cpu");
    options_.limits.reservation_timeout = absl::Hours(1);
    std::mt19937 random(1);
    request_ = LocalRequest(RandomTokens(random, 20), {});
    request_.mode = SequenceRequest::Mode::kReceive;
    spec_.mutable_key()->set_attempt(1);
    spec_.set_capability(std::string(16, 'c'));
    spec_.set_prompt_length(20);
    sequence_ = harness_.Submit(request_);
    harness_.Run();
    EXPECT_TRUE(harness_.log(sequence_).admitted);
  }

  // Begins to wait for the push, in `pushes`.
  void Expect(ThreadGroup& pushes) {
    push_.Prepare(start_, request_);
    const auto driver = push_.Expect(
        sequence_, pushes,
        {.committed = [](const ReceiveAction::CommitSequence&) { FAIL() << "nobody pushes"; },
         .failed = [this](const absl::Status& status) { failure_ = status; },
         .received = [](uint64_t) { FAIL() << "nobody pushes"; }});
    EXPECT_NE(driver, nullptr);
  }
  void ExpectReleased() {
    harness_.Run();
    EXPECT_TRUE(harness_.log(sequence_).released);
    harness_.ExpectNothingHeld();
  }

  EngineHarness harness_{EngineHarness::SmallOptions()};
  DecodeServiceOptions options_;
  SequenceRequest request_;
  internal::v1::DecodeStart start_;
  internal::v1::SequenceSpec& spec_ = *start_.mutable_sequence();
  SequenceId sequence_ = 0;
  DecodePush push_{harness_.engine(), options_};
  std::optional<absl::Status> failure_;
};

TEST_F(DecodePushTest, WhoCancelsBeforeItIsExpectedGivesTheBlocksBack) {
  push_.Prepare(start_, request_);
  EXPECT_FALSE(push_.Cancel(PushRefused::REASON_ABORTED));
  EXPECT_EQ(push_.Take(), nullptr);
  harness_.engine().Release(sequence_);
  ExpectReleased();
}

TEST_F(DecodePushTest, ItGivesTheBlocksBackItselfWhenItIsCancelled) {
  {
    ThreadGroup pushes;
    Expect(pushes);
    EXPECT_TRUE(push_.Cancel(PushRefused::REASON_ABORTED));
  }
  EXPECT_FALSE(push_.Cancel(PushRefused::REASON_ABORTED)) << "it has ended";
  EXPECT_NE(push_.Take(), nullptr);
  ExpectReleased();
}

TEST_F(DecodePushTest, ItWaitsNoLongerThanTheRequestHasTimeLeft) {
  spec_.set_remaining_ms(1);
  {
    ThreadGroup pushes;
    Expect(pushes);
  }
  ASSERT_TRUE(failure_.has_value());
  EXPECT_FALSE(failure_->ok());
  ExpectReleased();
}

TEST(CheckPusher, NamesTheFieldThatDoesNotSayWhoMayPush) {
  const auto fault_of = [](const std::string& worker_id, const std::string& peer_id, bool secure) {
    internal::v1::DecodeStart start;
    start.mutable_pusher()->set_worker_id(worker_id);
    start.mutable_pusher()->set_peer_id(peer_id);
    const absl::Status status = CheckPusher(start, secure);
    if (status.ok()) return std::string();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return FieldViolations(status).front().field;
  };
  const std::string id = "spiffe://d/baton/prefill/a";
  for (const bool secure : {false, true}) {
    EXPECT_EQ(fault_of("p", id, secure), "");
    EXPECT_EQ(fault_of(std::string(256, 'p'), id + std::string(2048 - id.size(), 'a'), secure), "");
    EXPECT_EQ(fault_of(std::string(257, 'p'), id, secure), "start.pusher.worker_id");
    EXPECT_EQ(fault_of("p", id + std::string(2049 - id.size(), 'a'), secure),
              "start.pusher.peer_id");
    EXPECT_EQ(fault_of("p", "prefill", secure), "start.pusher.peer_id");
  }
  EXPECT_EQ(fault_of("p", "", false), "") << "without TLS there is none";
  EXPECT_EQ(fault_of("p", "", true), "start.pusher.peer_id");
  internal::v1::DecodeStart local;
  local.set_prefill_locally(true);
  EXPECT_TRUE(CheckPusher(local, true).ok()) << "nobody pushes";
}

TEST(RefusalAfter, SaysWhetherAnotherAttemptOrTheWorkersEndCameBetween) {
  const auto with_reason = [](const char* reason) {
    return WithErrorInfo(absl::AbortedError("it ends"), {reason, kStageDecode, "d", {}});
  };
  EXPECT_EQ(RefusalAfter(with_reason(kReasonSuperseded)), PushRefused::REASON_SUPERSEDED);
  EXPECT_EQ(RefusalAfter(DrainingStatus("d", kStageQueue)), PushRefused::REASON_DRAINING);
  EXPECT_EQ(RefusalAfter(absl::CancelledError("the call")), PushRefused::REASON_ABORTED);
  EXPECT_EQ(RefusalAfter(absl::OkStatus()), PushRefused::REASON_ABORTED);
}

}  // namespace
}  // namespace baton
