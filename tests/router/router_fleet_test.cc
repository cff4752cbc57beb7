// Routers whose workers come, go, or do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "common/rpc/status.h"
#include "router/router.h"
#include "tests/router/router_fixture.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;
using testing::HasSubstr;

using RouterTest = RouterFixture;

TEST_F(RouterTest, WithoutAReadyWorkerItSaysSoAndWhenToComeAgain) {
  options_.workers.prefill = {"127.0.0.1:1"};
  options_.workers.decode = {"127.0.0.1:1"};
  StartOnly();
  EXPECT_FALSE(router_->Ready());
  const Answer answer = Generate(Request("abc", 10));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable) << answer.status;
  EXPECT_EQ(ErrorReason(answer.status), kReasonNoReadyWorker);
  EXPECT_TRUE(RetryDelay(answer.status).has_value());
  ExpectNothingLeft();
}

TEST_F(RouterTest, NoAnswerComesFromAWorkerOfAnotherModel) {
  AddPrefill();
  AddDecode();
  MockWorker::Options other;
  other.architecture = "qwen3";
  MockWorker& stranger = AddWorker(WORKER_ROLE_DECODE, other);
  other.architecture = "llama";
  other.metadata_digest = "another context length";
  MockWorker& longer = AddWorker(WORKER_ROLE_DECODE, other);
  for (const auto& worker : workers_) {
    (worker->role() == WORKER_ROLE_PREFILL ? options_.workers.prefill : options_.workers.decode)
        .push_back(worker->address());
  }
  StartOnly();
  Eventually([&] { return router_->Ready() && !router_->fleet().problem.empty(); });
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Answer answer = Generate(Request("abc", 4, seed));
    EXPECT_TRUE(answer.status.ok()) << answer.status;
  }
  EXPECT_EQ(stranger.total_calls() + longer.total_calls(), 0);
  EXPECT_EQ(router_->fleet().ready_identities, 1u);
  EXPECT_EQ(Metric("baton_router_ready_identities"), 1);
}

TEST_F(RouterTest, NeverUsesAWorkerWithAnotherTokenizerOrPairsTwoModels) {
  options_.allow_mixed_revisions = true;
  AddPrefill();
  MockWorker::Options other;
  other.tokenizer_digest = std::string(32, 'x');
  MockWorker& stranger = AddWorker(WORKER_ROLE_DECODE, other);
  other.tokenizer_digest = LetterModel().tokenizer_digest();
  other.weights_digest = std::string(32, 'x');
  MockWorker& other_model = AddWorker(WORKER_ROLE_DECODE, other);
  for (const auto& worker : workers_) {
    (worker->role() == WORKER_ROLE_PREFILL ? options_.workers.prefill : options_.workers.decode)
        .push_back(worker->address());
  }
  StartOnly();
  Eventually([&] {
    return router_->fleet().ready_decode == 1 && router_->fleet().ready_prefill == 1 &&
           !router_->fleet().problem.empty();
  });
  EXPECT_FALSE(router_->Ready());
  const Answer answer = Generate(Request("abc", 10));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable) << answer.status;
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("tokenizer"));
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("none of which serve the same"));
  EXPECT_EQ(stranger.total_calls() + other_model.total_calls(), 0);
}

TEST_F(RouterTest, FindsWorkersInAFileThatChanges) {
  const std::string path = testing::TempDir() + "/baton_router_test_workers";
  std::ofstream(path) << "# none yet\n";
  options_.workers.workers_file = path;
  options_.poll_interval = absl::Milliseconds(20);
  StartOnly();
  std::ofstream(path) << "prefill " << AddPrefill().address() << "\ndecode "
                      << AddDecode().address() << "  # a comment\n";
  Eventually([&] { return router_->Ready() && router_->fleet().ready_prefill == 1; });
  EXPECT_TRUE(Generate(Request("abc", 10)).status.ok());
  std::ofstream(path) << "decode " << workers_[1]->address() << "\n";
  Eventually([&] { return router_->fleet().ready_prefill == 0; });
}

TEST_F(RouterTest, IsReadyWithoutAPrefillWorkerButNotAllWorkersAre) {
  const std::string path = testing::TempDir() + "/baton_router_test_all_workers";
  std::ofstream(path) << "# none yet\n";
  options_.workers.workers_file = path;
  options_.poll_interval = absl::Milliseconds(20);
  options_.runner.dispatch.placement.disaggregation = Disaggregation::kAuto;
  StartOnly();
  EXPECT_FALSE(router_->AllWorkersReady()) << "nobody is no fleet";
  const std::string decode = AddDecode().address();
  std::ofstream(path) << "decode " << decode << "\nprefill 127.0.0.1:1\n";
  Eventually([&] { return router_->Ready(); });
  EXPECT_FALSE(router_->AllWorkersReady());
  std::ofstream(path) << "decode " << decode << "\nprefill " << AddPrefill().address() << "\n";
  Eventually([&] { return router_->AllWorkersReady(); });
  EXPECT_EQ(router_->fleet().ready_prefill, 1u);
}

}  // namespace
}  // namespace baton
