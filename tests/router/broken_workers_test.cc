// Workers that die, fall silent, hang, fail or break the protocol, as the router's clients see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/protocol/identity.h"
#include "router/router.h"
#include "tests/router/router_fixture.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;

using BrokenWorkers = RouterFixture;

TEST_F(BrokenWorkers,
       TheDeathOfTheOnlyPrefillWorkerIsATypedErrorAndTheNextRequestWorksOnceItIsBack) {
  MockWorker& prefill = AddPrefill();
  AddDecode();
  options_.runner.machine.worker_timeout = absl::Milliseconds(300);
  Start();
  prefill.Behave({.before_first_token = absl::Hours(1)});
  std::thread killer([&] {
    Eventually([&] { return prefill.active_calls() == 1; });
    prefill.Kill();
  });
  const Answer answer = Generate(Request("abc", 10));
  killer.join();
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable) << answer.status;
  ASSERT_TRUE(GetErrorInfo(answer.status).has_value());
  EXPECT_EQ(GetErrorInfo(answer.status)->stage, kStagePrefill);
  EXPECT_EQ(GetErrorInfo(answer.status)->worker, "p0");
  EXPECT_TRUE(RetryDelay(answer.status).has_value());
  ExpectNothingLeft();

  MockWorker::Options same_place;
  const std::string address = prefill.address();
  same_place.port = static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1)));
  AddWorker(WORKER_ROLE_PREFILL, same_place);
  Eventually([&] { return Generate(Request("abc", 10)).status.ok(); });
}

TEST_F(BrokenWorkers, APrefillWorkerThatADecodeWorkerQuarantinesGetsNothingUntilThatIsOver) {
  AddPrefill();
  MockWorker& honest = AddPrefill();
  AddDecode();
  MockWorker& auditor = AddDecode();
  Start();
  auditor.Behave({.quarantines = {"p0", "somebody else"}});
  Eventually([&] { return router_->fleet().ready_prefill == 1; });
  EXPECT_FALSE(router_->fleet().problem.empty());
  EXPECT_EQ(Metric("baton_worker_quarantined", workers_[0]->address()), 1);
  const int before = workers_[0]->total_calls();
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(Generate(Request("abc", 3, i)).status.ok());
  }
  EXPECT_EQ(workers_[0]->total_calls(), before);
  EXPECT_GE(honest.total_calls(), 10);

  auditor.Behave({});  // it was restarted
  Eventually([&] { return router_->fleet().ready_prefill == 2; });
  EXPECT_EQ(Metric("baton_worker_quarantined", workers_[0]->address()), 0);
  EXPECT_TRUE(router_->fleet().problem.empty());
}

TEST_F(BrokenWorkers, TheDeathOfTheOnlyDecodeWorkerEndsTheStreamWithATypedError) {
  AddPrefill();
  options_.runner.machine.worker_timeout = absl::Milliseconds(300);
  MockWorker& decode = AddDecode();
  decode.Behave({.between_tokens = absl::Milliseconds(2)});
  Start();
  const v1::GenerateRequest request = Request("abc", 50000);
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, request);
  Answer answer;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    Collect(response, &answer);
    if (answer.ids.size() >= 5) decode.Kill();
  }
  answer.status = FromGrpcStatus(reader->Finish());
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable) << answer.status;
  EXPECT_EQ(GetErrorInfo(answer.status)->stage, kStageDecode);
  EXPECT_EQ(GetErrorInfo(answer.status)->worker, "d1");
  const std::vector<uint32_t> expected = Expected(request);
  EXPECT_TRUE(std::equal(answer.ids.begin(), answer.ids.end(), expected.begin()));
  ExpectNothingLeft();
}

TEST_F(BrokenWorkers, AStreamGoesOnWithTheVeryTokensWhenItsWorkersDie) {
  for (int i = 0; i < 2; ++i) AddPrefill();
  for (int i = 0; i < 4; ++i) AddDecode();
  for (size_t i = 2; i < 6; ++i) workers_[i]->Behave({.between_tokens = absl::Milliseconds(2)});
  Start();
  v1::GenerateRequest request = Request("abc", 300);
  request.mutable_sampling_params()->clear_seed();
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, request);
  Answer answer;
  int deaths = 0;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    Collect(response, &answer);
    if (answer.ids.size() < 50 * static_cast<size_t>(deaths + 1) || deaths == 3) continue;
    for (size_t i = 2; i < 6; ++i) {
      if (workers_[i]->active_calls() == 0) continue;
      workers_[i]->Kill();
      ++deaths;
      break;
    }
  }
  answer.status = FromGrpcStatus(reader->Finish());
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  request.mutable_sampling_params()->set_seed(answer.completes[0].seed());
  EXPECT_EQ(answer.ids, Expected(request));
  EXPECT_EQ(deaths, 3);
  EXPECT_EQ(answer.completes[0].timings().attempts(), 4u);
  EXPECT_EQ(answer.completes[0].usage().completion_tokens(), 300u);
  EXPECT_TRUE(answer.completes[0].timings().exact());
  ExpectNothingLeft();
}

TEST_F(BrokenWorkers, AnotherPrefillWorkerTakesOverAPromptWhoseOwnHasDied) {
  MockWorker& first = AddPrefill();
  MockWorker& second = AddPrefill();
  AddDecode();
  Start();
  for (MockWorker* worker : {&first, &second}) {
    worker->Behave({.before_first_token = absl::Hours(1)});
  }
  std::thread killer([&] {
    Eventually([&] { return first.active_calls() + second.active_calls() == 1; });
    MockWorker& victim = first.active_calls() == 1 ? first : second;
    (&victim == &first ? second : first).Behave({});
    victim.Kill();
  });
  const v1::GenerateRequest request = Request("abc", 10);
  const Answer answer = Generate(request);
  killer.join();
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.ids, Expected(request));
  EXPECT_EQ(answer.completes[0].timings().attempts(), 2u);
  ExpectNothingLeft();
}

// It falls silent first: the router has given it up before it is killed, so that no attempt goes to
// the dead one.
TEST_F(BrokenWorkers, ARequestWaitsForAWorkerThatIsRestarted) {
  AddPrefill();
  MockWorker& decode = AddDecode();
  decode.Behave({.between_tokens = absl::Milliseconds(2)});
  Start();
  std::thread restarter([&] {
    Eventually([&] { return router_->fleet().ready_decode == 0; });
    decode.Kill();
    MockWorker::Options same_place;
    const std::string address = decode.address();
    same_place.port = static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1)));
    AddWorker(WORKER_ROLE_DECODE, same_place);
  });
  const v1::GenerateRequest request = Request("abc", 100);
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, request);
  Answer answer;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    Collect(response, &answer);
    if (answer.ids.size() >= 20) decode.Behave({.silent = true});
  }
  restarter.join();
  answer.status = FromGrpcStatus(reader->Finish());
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.ids, Expected(request));
  EXPECT_EQ(answer.completes[0].timings().attempts(), 2u);
}

TEST_F(BrokenWorkers, AWorkerThatFallsSilentIsGivenUp) {
  options_.runner.machine.worker_timeout = absl::Seconds(3);
  for (const bool prefill_stops : {true, false}) {
    MockWorker& prefill = AddPrefill();
    MockWorker& decode = AddDecode();
    Start();
    (prefill_stops ? prefill : decode).Behave({.silent = true});
    const Answer answer = Generate(Request("abc", 50));
    EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable) << answer.status;
    EXPECT_EQ(ErrorReason(answer.status), kReasonWorkerLost);
    Stop();
    workers_.clear();
    options_.workers = {};
  }
}

TEST_F(BrokenWorkers, AWorkerThatFloodsItsStreamIsUsedNoMore) {
  MockWorker::Options flood;
  flood.watch_interval = absl::Microseconds(10);
  AddWorker(internal::v1::WORKER_ROLE_DECODE, flood);
  Start();
  Eventually([&] { return router_->fleet().ready_decode == 0; });
}

TEST_F(BrokenWorkers, AWorkerWithANameThatOthersWouldRefuseIsNeverUsed) {
  MockWorker::Options options;
  options.name = std::string(257, 'p');
  AddWorker(WORKER_ROLE_PREFILL, options);
  options_.workers.prefill.push_back(workers_.front()->address());
  StartOnly();
  Eventually([&] { return !router_->fleet().problem.empty(); });
  EXPECT_THAT(router_->fleet().problem, ::testing::HasSubstr("name of more than 256 bytes"));
  EXPECT_EQ(router_->fleet().ready_prefill, 0u);
}

TEST_F(BrokenWorkers, AWorkerWithATypeOfWeightsThatIsTooLongIsNeverUsed) {
  AddWorker(WORKER_ROLE_PREFILL, {.weights_type = std::string(65, 'Q')});
  options_.workers.prefill.push_back(workers_.front()->address());
  StartOnly();
  Eventually([&] { return !router_->fleet().problem.empty(); });
  EXPECT_THAT(router_->fleet().problem, ::testing::HasSubstr("weights_type of more than 64 bytes"));
  EXPECT_EQ(router_->fleet().ready_prefill, 0u);
}

TEST_F(BrokenWorkers, LeavesAWorkerWhoseEngineHangsUntilItAdvances) {
  AddPrefill();
  MockWorker& first = AddDecode();
  MockWorker& second = AddDecode();
  for (MockWorker* worker : {&first, &second}) {
    worker->Behave({.between_tokens = absl::Milliseconds(2)});
  }
  Start();
  const v1::GenerateRequest request = Request("abc", 100);
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, request);
  Answer answer;
  MockWorker* stuck = nullptr;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    Collect(response, &answer);
    if (answer.ids.size() < 10 || stuck != nullptr) continue;
    stuck = first.active_calls() == 1 ? &first : &second;
    stuck->Behave({.stuck = true});
  }
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(answer.ids, Expected(request));
  EXPECT_EQ(answer.completes[0].timings().attempts(), 2u);
  stuck->Behave({});
  Eventually([&] { return router_->fleet().ready_decode == 2; });
}

// Its Watch is fine, and it takes what it is given.
TEST_F(BrokenWorkers, AWorkerThatFailsWhateverItIsGivenIsGivenLittleUntilItServesAgain) {
  for (const auto role : {internal::v1::WORKER_ROLE_PREFILL, internal::v1::WORKER_ROLE_DECODE}) {
    SCOPED_TRACE(WorkerRoleName(role));
    options_.workers = {};
    workers_.clear();
    MockWorker& bad = AddWorker(role);
    AddPrefill();
    AddDecode();
    Start();
    bad.Behave({.fails = true});
    const auto request = Request("abcd", 3);
    for (int i = 0; i < 60; ++i) {
      const Answer answer = Generate(request);
      EXPECT_TRUE(answer.status.ok()) << answer.status;
      EXPECT_EQ(answer.ids, Expected(request));
    }
    // Otherwise half of them; some more are probes.
    EXPECT_LE(bad.total_calls(), CircuitBreaker::kFailures + 8);
    EXPECT_GE(bad.total_calls(), CircuitBreaker::kFailures);
    bad.Behave({});
    const int before = bad.total_calls();
    Eventually([&] {
      EXPECT_TRUE(Generate(request).status.ok());
      return bad.total_calls() >= before + 10;
    });
    Stop();
  }
}

// Its Watch is fine, and its calls stay open.
TEST_F(BrokenWorkers, WhatAWorkerTookAndForgotGoesOnElsewhere) {
  options_.runner.machine.silence_timeout = absl::Milliseconds(500);
  const MockBehaviour honest = {.between_signs = absl::Milliseconds(50)};
  for (const auto role : {internal::v1::WORKER_ROLE_PREFILL, internal::v1::WORKER_ROLE_DECODE}) {
    SCOPED_TRACE(WorkerRoleName(role));
    options_.workers = {};
    workers_.clear();
    MockWorker& bad = AddWorker(role);
    AddPrefill().Behave(honest);
    AddDecode().Behave(honest);
    Start();
    bad.Behave({.forgets = true});
    const auto request = Request("abcd", 3);
    for (int i = 0; i < 50 && bad.total_calls() == 0; ++i) {
      const Answer answer = Generate(request);
      ASSERT_TRUE(answer.status.ok()) << answer.status;
      EXPECT_EQ(answer.ids, Expected(request));
      EXPECT_GT(answer.completes[0].timings().attempts(), bad.total_calls() > 0 ? 1u : 0u);
    }
    EXPECT_GT(bad.total_calls(), 0);
    ExpectNothingLeft();
    Stop();
  }
}

TEST_F(BrokenWorkers, AnAccountThatCannotBeTrueReachesNobody) {
  MockWorker& prefill = AddPrefill();
  AddDecode();
  Start();
  prefill.Behave({.wire_dtype = std::string(1 << 20, 'x')});
  const v1::GenerateRequest request = Request("abc", 10);
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << "the decode worker had all it needs: " << answer.status;
  EXPECT_EQ(answer.ids, Expected(request));
  EXPECT_EQ(answer.completes[0].timings().kv_wire_dtype(), "");
  EXPECT_EQ(answer.completes[0].timings().kv_transfer_bytes(), 0u);
  prefill.Behave({.wire_dtype = "f16"});
  EXPECT_EQ(Generate(request).completes.at(0).timings().kv_wire_dtype(), "f16");
  ExpectNothingLeft();
}

TEST_F(BrokenWorkers, WorkersThatBreakTheProtocolEndTheRequestInternal) {
  MockWorker& prefill = AddPrefill();
  MockWorker& decode = AddDecode();
  Start();
  prefill.Behave({.wrong_first_token = true});
  EXPECT_EQ(Generate(Request("abc", 10)).status.code(), absl::StatusCode::kInternal);
  prefill.Behave({});
  decode.Behave({.skip_a_token = true});
  EXPECT_EQ(Generate(Request("abc", 10)).status.code(), absl::StatusCode::kInternal);
  decode.Behave({});
  EXPECT_TRUE(Generate(Request("abc", 10)).status.ok()) << "the next request is served";
  ExpectNothingLeft();
}

}  // namespace

}  // namespace baton
