#include "router/fleet/worker_reports.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/protocol/worker_status.h"
#include "common/rpc/duration.h"
#include "router/calls/thread_loop.h"
#include "tests/router/fleet/ready_worker.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;

class WorkerReportsTest : public testing::Test {
 protected:
  Lease LeaseOf(uint64_t prefill, uint64_t decode) {
    return Lease(
        fleet_,
        {.prefill = prefill, .decode = decode, .prompt_tokens = 1000, .computed_tokens = 1000});
  }
  static internal::v1::PrefillResponse PrefillFinished(absl::Duration compute) {
    internal::v1::PrefillResponse message;
    *message.mutable_finished()->mutable_compute() = DurationToProto(compute);
    *message.mutable_finished()->mutable_transfer() = DurationToProto(absl::Seconds(1));
    message.mutable_finished()->set_bytes_sent(1000000);
    return message;
  }

  ThreadLoop loop_;
  Fleet fleet_{loop_};
  std::vector<std::string> failed_;  // faults of links
  WorkerReports reports_{fleet_, [this](const WorkerTarget&, const WorkerTarget&,
                                        const std::string& fault) { failed_.push_back(fault); }};
  ReadyWorker prefill_{loop_, fleet_, WORKER_ROLE_PREFILL};
  ReadyWorker decode_{loop_, fleet_, WORKER_ROLE_DECODE};
};

TEST_F(WorkerReportsTest, APrefillTellsItsSpeedWithoutCachedTokensAndThatOfItsLink) {
  const Lease lease = LeaseOf(prefill_.id(), decode_.id());
  WorkerReports::Call call{.worker_id = prefill_.id()};
  internal::v1::PrefillResponse started;
  started.mutable_started()->set_cached_tokens(400);
  reports_.Heard(call, &lease, started);
  reports_.Heard(call, &lease, PrefillFinished(absl::Seconds(2)));
  EXPECT_DOUBLE_EQ(prefill_.seen().prefill_tokens_per_second, 300);
  EXPECT_EQ(prefill_.worker().traffic.timed_prompt_tokens, 600u);
  EXPECT_EQ(prefill_.worker().traffic.prompt_compute, absl::Seconds(2));
  EXPECT_EQ(fleet_.Link(prefill_.id(), decode_.id()).bytes_per_second, 1e6);
  EXPECT_EQ(decode_.seen().prefill_tokens_per_second, 0);
}

TEST_F(WorkerReportsTest, ADecodeWorkerTellsThePrefillSpeedOnlyOfPromptsThatItComputed) {
  internal::v1::DecodeResponse finished;
  *finished.mutable_finished()->mutable_prefill() = DurationToProto(absl::Seconds(2));
  WorkerReports::Call call{.worker_id = decode_.id()};
  const Lease handed_off = LeaseOf(prefill_.id(), decode_.id());
  reports_.Heard(call, &handed_off, finished);
  reports_.Heard(call, nullptr, finished);
  EXPECT_EQ(decode_.seen().prefill_tokens_per_second, 0);
  const Lease local = LeaseOf(0, decode_.id());
  reports_.Heard(call, &local, finished);
  EXPECT_DOUBLE_EQ(decode_.seen().prefill_tokens_per_second, 500);
}

TEST_F(WorkerReportsTest, WhatWorkersDoIsCountedOnce) {
  const Lease lease = LeaseOf(prefill_.id(), decode_.id());
  WorkerReports::Call call{.worker_id = prefill_.id()};
  internal::v1::PrefillResponse message;
  message.mutable_started()->set_cached_tokens(100);
  reports_.Heard(call, &lease, message);
  for (const uint32_t computed : {300u, 300u, 500u, 4000000000u}) {
    message.mutable_progress()->set_computed_tokens(computed);
    reports_.Heard(call, &lease, message);
  }
  EXPECT_EQ(prefill_.worker().traffic.prompt_tokens, 900u) << "it takes no more than 1000";
  message = PrefillFinished(absl::Seconds(1));
  message.mutable_finished()->set_messages(3);
  *message.mutable_finished()->mutable_exposed_transfer() = DurationToProto(absl::Seconds(2));
  reports_.Heard(call, &lease, message);
  for (ReadyWorker* worker : {&prefill_, &decode_}) {
    EXPECT_EQ(worker->worker().traffic.hand_offs, 1u);
    EXPECT_EQ(worker->worker().traffic.hand_off_bytes, 1000000u);
    EXPECT_EQ(worker->worker().traffic.exposed_transfer, absl::Seconds(2));
  }
  WorkerReports::Call decode{.worker_id = decode_.id()};
  internal::v1::DecodeResponse tokens;
  tokens.mutable_tokens()->add_tokens();
  tokens.mutable_tokens()->add_tokens();
  reports_.Heard(decode, &lease, tokens);
  EXPECT_EQ(decode_.worker().traffic.output_tokens, 2u);
  EXPECT_EQ(prefill_.worker().traffic.output_tokens, 0u);
}

TEST_F(WorkerReportsTest, ASpeedThatNoWorkerHasIsNotBelieved) {
  for (const absl::Duration compute : {absl::Nanoseconds(1), absl::Hours(100000)}) {
    const Lease lease = LeaseOf(prefill_.id(), decode_.id());
    WorkerReports::Call call{.worker_id = prefill_.id()};
    reports_.Heard(call, &lease, PrefillFinished(compute));
    EXPECT_GE(prefill_.seen().prefill_tokens_per_second, 1e-2);
    EXPECT_LE(prefill_.seen().prefill_tokens_per_second, 1e6);
    prefill_.worker().measured_tokens_per_second = 0;
  }
}

TEST_F(WorkerReportsTest, OneThatFailsInARowIsGivenNothingUntilItServes) {
  std::optional<WorkerReports::Call> call;
  for (int i = 0; i < CircuitBreaker::kFailures; ++i) {
    EXPECT_TRUE(decode_.seen().takes_requests);
    const Lease lease = LeaseOf(prefill_.id(), decode_.id());
    call = {.worker_id = decode_.id(), .begun = lease.begun(decode_.id())};
    reports_.Ended(*call, absl::ResourceExhaustedError("speaks against nobody"));
    reports_.Ended(*call, absl::UnavailableError("the connection broke"));
  }
  EXPECT_FALSE(decode_.seen().takes_requests);
  EXPECT_TRUE(prefill_.seen().takes_requests);
  internal::v1::DecodeResponse committed;
  committed.mutable_committed();
  reports_.Heard(*call, nullptr, committed);
  EXPECT_TRUE(decode_.seen().takes_requests);
}

TEST_F(WorkerReportsTest, AHandOffThatFailedMakesTheLinkBadAndIsNamedUnlessAWorkerIsGone) {
  prefill_.worker().info.set_name("p");
  decode_.worker().info.set_name("d");
  const Lease lease = LeaseOf(prefill_.id(), decode_.id());
  const absl::Status failure = TransferFailed(
      WithPushFault(absl::UnavailableError("connection refused"), kPushUnreachable), "p");
  testing::internal::CaptureStderr();
  reports_.HandOffFailed(lease, failure);
  reports_.HandOffFailed(lease, failure);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_NE(
      log.find("hand-offs fail from prefill worker 'p' at worker:1 to decode worker 'd', which "
               "takes them at worker:1: fault=unreachable failures=1: connection refused"),
      std::string::npos)
      << log;
  EXPECT_EQ(failed_, (std::vector<std::string>{"unreachable", "unreachable"}));
  EXPECT_EQ(fleet_.link_failures().Get(fleet_.Now()).size(), 1u);
  EXPECT_TRUE(fleet_.Link(prefill_.id(), decode_.id()).bad);
  const uint64_t gone = decode_.id();
  const Lease of_gone = LeaseOf(prefill_.id(), gone);
  decode_.ComeAgain();
  fleet_.links().Forget(gone);
  EXPECT_TRUE(fleet_.link_failures().Get(fleet_.Now()).empty());
  reports_.HandOffFailed(of_gone, failure);
  EXPECT_FALSE(fleet_.Link(prefill_.id(), gone).bad);
}

}  // namespace
}  // namespace baton
