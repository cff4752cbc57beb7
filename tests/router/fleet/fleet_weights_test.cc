#include "router/fleet/fleet_weights.h"

#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

// Workers by their weights, whose samples are "s" and the digest of the weights.
WorkersByTarget WorkersOf(std::initializer_list<const char*> weights) {
  WorkersByTarget workers;
  for (const char* digest : weights) {
    auto worker = std::make_unique<Worker>();
    worker->target = {internal::v1::WORKER_ROLE_DECODE, "d:" + std::to_string(workers.size() + 1)};
    worker->info.mutable_identity()->set_weights_digest(digest);
    worker->info.mutable_identity()->set_sample_digest(std::string("s") + digest);
    const WorkerTarget target = worker->target;
    workers.emplace(target, std::move(worker));
  }
  return workers;
}

TEST(FleetWeights, ThoseOfMostWorkersAreUsedWhoeverCameFirst) {
  EXPECT_EQ(ChooseWeights(WorkersOf({"a", "b", "b"}), {}, "a"), "b");
  EXPECT_EQ(ChooseWeights(WorkersOf({"a", "b", "", ""}), {}, "a"), "a");
  EXPECT_EQ(ChooseWeights(WorkersOf({"a", "b"}), {}, "b"), "b");
  EXPECT_EQ(ChooseWeights({}, {}, "b"), "");
}

TEST(FleetWeights, OfAsManyWorkersThoseThatTheRoutersFileHasUnquantisedAreUsed) {
  ExpectedModel expected;
  expected.sample_digests = {"sfile", "sq8"};
  EXPECT_EQ(ChooseWeights(WorkersOf({"q8", "file"}), expected, "q8"), "file");
  EXPECT_EQ(ChooseWeights(WorkersOf({"q8", "q8", "file"}), expected, "file"), "q8");
}

TEST(FleetWeights, WorkersWithAnotherProblemAndThoseThatAreNoTargetsDoNotCount) {
  WorkersByTarget workers = WorkersOf({"a", "b", "b"});
  std::next(workers.begin())->second->problem = "another";
  EXPECT_EQ(ChooseWeights(workers, {}, "a"), "a");
  workers.rbegin()->second->wanted = false;
  EXPECT_EQ(ChooseWeights(workers, {}, "b"), "a");
}

TEST(FleetWeights, AWorkerIsMarkedWhileOtherWeightsAreUsed) {
  WorkersByTarget workers = WorkersOf({"a", "b"});
  std::vector<std::string> changed;
  const auto note = [&](const Worker& worker) { changed.push_back(worker.target.address); };
  MarkOtherWeights(workers, "a", absl::UnixEpoch(), note);
  MarkOtherWeights(workers, "a", absl::UnixEpoch(), note);
  EXPECT_EQ(changed, std::vector<std::string>{"d:2"});
  EXPECT_TRUE(workers.begin()->second->problem.empty());
  EXPECT_FALSE(workers.rbegin()->second->problem.empty());
  MarkOtherWeights(workers, "b", absl::UnixEpoch(), note);
  EXPECT_FALSE(workers.begin()->second->problem.empty());
  EXPECT_TRUE(workers.rbegin()->second->problem.empty());
}

}  // namespace
}  // namespace baton
