#include "router/fleet/worker_registry.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"
#include "common/rpc/status.h"
#include "tests/router/fleet/registry_fixture.h"

namespace baton {
namespace {

using internal::v1::WatchResponse;
using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class WorkerRegistryTest : public PairRegistryFixture {};

TEST_F(WorkerRegistryTest, MayUseWorkersThatSayThatTheyAreReady) {
  EXPECT_EQ(view_.Get().ready_decode, 0u);
  WatchResponse message = Introduction(WORKER_ROLE_DECODE);
  message.set_state(internal::v1::WORKER_STATE_STARTING);
  watches_.Say(kDecodeAddress, message);
  EXPECT_THAT(told_, IsEmpty());
  Introduce();
  const FleetSummary summary = view_.Get();
  EXPECT_EQ(summary.ready_prefill, 1u);
  EXPECT_EQ(summary.ready_decode, 1u);
  EXPECT_TRUE(summary.all_ready && summary.has_pair);
  EXPECT_EQ(summary.max_model_len, 1000u);
  EXPECT_EQ(summary.kv_cache_dtype, "f16");
  EXPECT_EQ(summary.problem, "");
  EXPECT_THAT(told_, ElementsAre("p:1 is up", "d:1 is up"));
}

TEST_F(WorkerRegistryTest, AWorkerThatIntroducesItselfAgainAndAgainCausesFewLinesOfTheLog) {
  testing::internal::CaptureStderr();
  for (uint64_t incarnation = 1; incarnation <= 500; ++incarnation) {
    watches_.Say(kPrefillAddress, Introduction(WORKER_ROLE_PREFILL, incarnation));
  }
  EXPECT_EQ(lost_.size(), 499u);
  RunFor(absl::Seconds(2));
  watches_.Say(kPrefillAddress, Introduction(WORKER_ROLE_PREFILL, 501));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 25) << log;
  EXPECT_THAT(log, HasSubstr("lines about it were left out"));
}

TEST_F(WorkerRegistryTest, LosesAWorkerThatIsSilentAndAsksItAnew) {
  Introduce();
  for (int i = 0; i < 12; ++i) {
    RunFor(kWatchInterval);
    WatchResponse message;
    message.set_state(internal::v1::WORKER_STATE_READY);
    watches_.Say(kDecodeAddress, message);
  }
  EXPECT_THAT(lost_, ElementsAre(HasSubstr("no message for 2.5s")));
  EXPECT_EQ(view_.Get().ready_prefill, 0u);
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  RunFor(absl::Seconds(1));
  EXPECT_EQ(watches_.opened(kPrefillAddress), 2);
  EXPECT_EQ(watches_.opened(kDecodeAddress), 1);
  watches_.Say(kPrefillAddress, Introduction(WORKER_ROLE_PREFILL));
  EXPECT_EQ(view_.Get().ready_prefill, 1u);
}

TEST_F(WorkerRegistryTest, LosesAWorkerThatHasWorkAndDoesNotAdvanceAndTellsThatItStandsStill) {
  Introduce();
  const absl::Time introduced = loop_.Now();
  WatchResponse message;
  message.set_state(internal::v1::WORKER_STATE_READY);
  message.set_runnable_sequences(1);
  for (int i = 0; i < 12; ++i) {
    RunFor(kWatchInterval);
    watches_.Say(kDecodeAddress, message);
    watches_.Say(kPrefillAddress, Introduction(WORKER_ROLE_PREFILL));
  }
  EXPECT_THAT(lost_, ElementsAre("d:1 stands still", HasSubstr("no progress for 2.5s")));
  EXPECT_EQ(stood_since_, introduced);
  EXPECT_EQ(view_.Get().ready_decode, 0u);
  message.set_progress(1);
  watches_.Say(kDecodeAddress, message);
  EXPECT_EQ(view_.Get().ready_decode, 1u) << "it has advanced";
}

TEST_F(WorkerRegistryTest, AWorkerThatWasRestartedIsANewOne) {
  Introduce();
  watches_.Say(kDecodeAddress, Introduction(WORKER_ROLE_DECODE));
  EXPECT_THAT(lost_, IsEmpty());
  watches_.Say(kDecodeAddress, Introduction(WORKER_ROLE_DECODE, /*incarnation=*/2));
  EXPECT_THAT(lost_, ElementsAre(HasSubstr("was restarted")));
  EXPECT_EQ(view_.Get().ready_decode, 1u);
}

TEST_F(WorkerRegistryTest, NeverUsesAWorkerThatCannotWorkForThisRouter) {
  uint64_t incarnation = 1;
  const auto problem = [&](const WatchResponse& message) {
    watches_.Say(kDecodeAddress, message);
    RunFor(kTurn);
    EXPECT_EQ(view_.Get().ready_decode, 0u);
    return view_.Get().problem;
  };
  WatchResponse message = Introduction(WORKER_ROLE_DECODE, ++incarnation);
  message.mutable_info()->mutable_identity()->set_tokenizer_digest("other");
  EXPECT_THAT(problem(message), HasSubstr("another tokenizer"));
  message = Introduction(WORKER_ROLE_DECODE, ++incarnation);
  message.mutable_info()->mutable_identity()->set_protocol_version(kProtocolVersion + 1);
  EXPECT_THAT(problem(message), HasSubstr("protocol version"));
  message = Introduction(WORKER_ROLE_DECODE, ++incarnation);
  message.mutable_info()->mutable_shape()->set_block_size(17);
  EXPECT_THAT(problem(message), HasSubstr("impossible shape"));
  EXPECT_THAT(problem(Introduction(WORKER_ROLE_PREFILL, ++incarnation)),
              HasSubstr("is a prefill worker, not a decode worker"));
  EXPECT_THAT(told_, IsEmpty());
}

// The introduction of a worker with these weights.
WatchResponse Serving(internal::v1::WorkerRole role, const std::string& weights_digest,
                      uint64_t incarnation = 1) {
  WatchResponse message = Introduction(role, incarnation);
  message.mutable_info()->mutable_identity()->set_weights_digest(weights_digest);
  message.mutable_info()->set_weights_type(weights_digest == "old" ? "F16" : "Q8_0");
  return message;
}

TEST_F(WorkerRegistryTest, RefusesAWorkerOfAnotherModelThanTheRoutersWithOneLine) {
  WatchResponse message = Introduction(WORKER_ROLE_DECODE);
  message.mutable_info()->mutable_identity()->set_architecture("qwen3");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) watches_.Say(kDecodeAddress, message);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("decode worker 'd' at d:1 is not used: it serves another model than "
                             "the router's 'm': architecture is qwen3 there and llama here"));
  EXPECT_THAT(log, HasSubstr("--allow-mixed-revisions"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 0u);
  EXPECT_THAT(view_.Get().problem, HasSubstr("architecture is qwen3"));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(WorkerRegistryTest, OfTwoWeightsUsesTheFirstUntilMoreWorkersHaveTheOthers) {
  watches_.Say(kPrefillAddress, Serving(WORKER_ROLE_PREFILL, "old"));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) watches_.Say(kDecodeAddress, Serving(WORKER_ROLE_DECODE, "new"));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("decode worker 'd' at d:1 is not used: it serves other weights (Q8_0 "
                             "6e6577...) than the workers that are used (F16 6f6c64...), such as "
                             "'p' at p:1; give both the same model"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  // While the prefill worker cannot be reached, its weights are still the fleet's.
  for (int i = 0; i < 12; ++i) {
    RunFor(kWatchInterval);
    watches_.Say(kDecodeAddress, Serving(WORKER_ROLE_DECODE, "new"));
  }
  EXPECT_EQ(view_.Get().ready_prefill + view_.Get().ready_decode, 0u);
  EXPECT_THAT(view_.Get().problem, HasSubstr("serves other weights"));
  registry_.SetTargets({{WORKER_ROLE_PREFILL, kPrefillAddress},
                        {WORKER_ROLE_DECODE, kDecodeAddress},
                        {WORKER_ROLE_DECODE, "d:2"}});
  watches_.Say("d:2", Serving(WORKER_ROLE_DECODE, "new", 2));
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 2u);
  EXPECT_EQ(view_.Get().ready_identities, 1u);
  EXPECT_EQ(view_.Get().problem, "");
  watches_.Say(kPrefillAddress, Serving(WORKER_ROLE_PREFILL, "old"));
  EXPECT_EQ(view_.Get().ready_prefill, 0u) << "two workers have other weights";
}

TEST_F(WorkerRegistryTest, UsesTheOtherWeightsOnceNoTargetHasTheFirst) {
  watches_.Say(kPrefillAddress, Serving(WORKER_ROLE_PREFILL, "old"));
  watches_.Say(kDecodeAddress, Serving(WORKER_ROLE_DECODE, "new"));
  EXPECT_EQ(view_.Get().ready_decode, 0u);
  registry_.SetTargets({{WORKER_ROLE_DECODE, kDecodeAddress}});
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  EXPECT_EQ(view_.Get().problem, "");
}

TEST_F(WorkerRegistryTest, UsesBothModelsWeightsWhereMixedRevisionsAreAllowed) {
  WorkerRegistry::Options options = Options();
  options.allow_mixed_revisions = true;
  PlayedWatches watches(queue_);
  options.connect = watches.Connect();
  FleetView view;
  WorkerRegistry registry(loop_, fleet_, view, std::move(options));
  registry.Start();
  registry.SetTargets(
      {{WORKER_ROLE_PREFILL, kPrefillAddress}, {WORKER_ROLE_DECODE, kDecodeAddress}});
  WatchResponse decode = Serving(WORKER_ROLE_DECODE, "new");
  decode.mutable_info()->mutable_identity()->set_architecture("qwen3");
  watches.Say(kPrefillAddress, Serving(WORKER_ROLE_PREFILL, "old"));
  watches.Say(kDecodeAddress, decode);
  EXPECT_EQ(view.Get().ready_prefill + view.Get().ready_decode, 2u);
  EXPECT_EQ(view.Get().ready_identities, 2u);
  EXPECT_FALSE(view.Get().has_pair);
  bool closed = false;
  registry.Close([&closed] { closed = true; });
  while (!closed) queue_.RunNext();
}

TEST_F(WorkerRegistryTest, TheSummaryNamesTheTypesOfAllDecodeWorkers) {
  const std::string second = "d:2";
  registry_.SetTargets({{WORKER_ROLE_PREFILL, kPrefillAddress},
                        {WORKER_ROLE_DECODE, kDecodeAddress},
                        {WORKER_ROLE_DECODE, second}});
  WatchResponse one = Introduction(WORKER_ROLE_DECODE);
  one.mutable_info()->set_weights_type("Q8_0");
  WatchResponse two = Introduction(WORKER_ROLE_DECODE, 2);
  two.mutable_info()->set_weights_type("F16");
  two.mutable_info()->mutable_shape()->set_dtype("bf16");
  two.mutable_info()->mutable_shape()->set_block_size(32);
  watches_.Say(kDecodeAddress, one);
  watches_.Say(second, two);
  EXPECT_EQ(view_.Get().weights_type, "F16, Q8_0");
  EXPECT_EQ(view_.Get().kv_cache_dtype, "bf16, f16");
  EXPECT_EQ(view_.Get().block_size, 16u);
}

TEST_F(WorkerRegistryTest,
       SendsPushesToTheHostWhereItReachesTheDecodeWorkerOrThatTheOperatorAllows) {
  uint64_t incarnation = 0;
  watches_.LeadTo(kDecodeAddress, "ipv4:10.0.0.5:1");
  for (const char* own : {"", "0.0.0.0:50051", "d:50051", "10.0.0.5:50051", "10.8.1.2:50051"}) {
    WatchResponse message = Introduction(WORKER_ROLE_DECODE, ++incarnation);
    message.mutable_info()->set_address(own);
    watches_.Say(kDecodeAddress, message);
    EXPECT_EQ(view_.Get().ready_decode, 1u) << own;
  }
}

TEST_F(WorkerRegistryTest, DoesNotUseADecodeWorkerThatAdvertisesAnotherHostAndSaysWhyInTheLogOnly) {
  WatchResponse message = Introduction(WORKER_ROLE_DECODE);
  message.mutable_info()->set_address("192.0.2.9:50051");
  testing::internal::CaptureStderr();
  watches_.Say(kDecodeAddress, message);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("decode worker 'd' at d:1 is not used: it advertises the host "
                             "'192.0.2.9', but the router reaches it at 'd'"));
  EXPECT_THAT(log, HasSubstr("--advertised-host=192.0.2.9"));
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 0u);
  EXPECT_THAT(view_.Get().problem, HasSubstr("advertises a host that is not its own"));
  EXPECT_THAT(view_.Get().problem, Not(HasSubstr("192.0.2.9")));
  // Nothing is pushed to a prefill worker.
  message = Introduction(WORKER_ROLE_PREFILL);
  message.mutable_info()->set_address("192.0.2.9:50051");
  watches_.Say(kPrefillAddress, message);
  EXPECT_EQ(view_.Get().ready_prefill, 1u);
}

TEST_F(WorkerRegistryTest, DoesNotUseAPrefillWorkerThatADecodeWorkerQuarantines) {
  Introduce();
  told_.clear();
  WatchResponse message;
  message.set_state(internal::v1::WORKER_STATE_READY);
  message.add_quarantined_pushers("p");
  watches_.Say(kDecodeAddress, message);
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_prefill, 0u);
  EXPECT_THAT(view_.Get().problem, HasSubstr("is quarantined"));
  message.clear_quarantined_pushers();
  watches_.Say(kDecodeAddress, message);
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_prefill, 1u);
  EXPECT_THAT(told_, ElementsAre("p:1 is wrong", "p:1 is down", "p:1 is right", "p:1 is up"));
}

TEST_F(WorkerRegistryTest, LetsGoOfWorkersThatAreNoTargetsAnyMore) {
  Introduce();
  told_.clear();
  registry_.SetTargets({{WORKER_ROLE_DECODE, kDecodeAddress}});
  RunFor(kTurn);
  EXPECT_FALSE(watches_.IsOpen(kPrefillAddress));
  EXPECT_EQ(view_.Get().ready_prefill, 0u);
  EXPECT_TRUE(view_.Get().all_ready);
  EXPECT_THAT(told_, ElementsAre("p:1 is down", "p:1 is gone"));
}

TEST_F(WorkerRegistryTest, HearsAWorkerThatFloodsItsStreamNoMoreForAWhile) {
  Introduce();
  WatchResponse message;
  message.set_state(internal::v1::WORKER_STATE_READY);
  for (int i = 0; i < static_cast<int>(WatchBudget::kBurst); ++i) {
    watches_.Say(kDecodeAddress, message);
  }
  RunFor(absl::Seconds(9));
  EXPECT_EQ(view_.Get().ready_decode, 0u);
  EXPECT_FALSE(watches_.IsOpen(kDecodeAddress));
  EXPECT_EQ(watches_.opened(kDecodeAddress), 1);
  RunFor(absl::Seconds(2));
  EXPECT_TRUE(watches_.IsOpen(kDecodeAddress));
}

TEST_F(WorkerRegistryTest, APairBetweenMachinesIsNoneIfPushesWouldGoToLoopback) {
  watches_.LeadTo(kPrefillAddress, "ipv4:192.0.2.9:1");
  watches_.LeadTo(kDecodeAddress, "ipv4:127.0.0.1:1");
  testing::internal::CaptureStderr();
  WatchResponse message = Introduction(WORKER_ROLE_DECODE);
  message.mutable_info()->set_address("127.0.0.1:50052");
  watches_.Say(kDecodeAddress, message);
  watches_.Say(kPrefillAddress, Introduction(WORKER_ROLE_PREFILL));
  RunFor(kTurn);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("prefill worker 'p' at p:1 cannot hand off to decode worker 'd' at "
                             "d:1: it is on another machine, and pushes would go to "
                             "127.0.0.1:50052; give the decode worker an --advertise"));
  const FleetSummary summary = view_.Get();
  EXPECT_EQ(summary.ready_prefill, 1u);
  EXPECT_EQ(summary.ready_decode, 1u) << "it may prefill itself";
  EXPECT_TRUE(summary.has_same_model);
  EXPECT_FALSE(summary.has_pair);
  const auto candidates =
      fleet_.Choose({.prompt_tokens = 32, .max_total_tokens = 64}, {}, "", {}, 0);
  EXPECT_TRUE(fleet_.Link(candidates.prefill.at(0).id, candidates.decode.at(0).id).impossible);
}

}  // namespace
}  // namespace baton
