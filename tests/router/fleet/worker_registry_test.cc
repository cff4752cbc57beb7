#include "router/fleet/worker_registry.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"
#include "common/rpc/status.h"
#include "tests/router/fleet/played_watches.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/router/virtual_loop.h"

namespace baton {
namespace {

using internal::v1::WatchResponse;
using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A little more than kWatchInterval: by then the registry has looked at all its workers again.
constexpr absl::Duration kTurn = absl::Milliseconds(251);
constexpr char kPrefillAddress[] = "p:1", kDecodeAddress[] = "d:1";

// A ready worker introduces itself.
WatchResponse Introduction(internal::v1::WorkerRole role, uint64_t incarnation = 1) {
  WatchResponse message;
  internal::v1::WorkerInfo& info = *message.mutable_info();
  info.set_name(role == WORKER_ROLE_DECODE ? "d" : "p");
  info.set_role(role);
  info.set_incarnation(incarnation);
  info.mutable_identity()->set_protocol_version(kProtocolVersion);
  info.mutable_identity()->set_architecture("llama");
  info.mutable_identity()->set_tokenizer_digest("digest");
  info.mutable_shape()->set_layers(2);
  info.mutable_shape()->set_kv_heads(1);
  info.mutable_shape()->set_head_dim(64);
  info.mutable_shape()->set_dtype("f16");
  info.mutable_shape()->set_block_size(16);
  info.set_total_blocks(100);
  info.set_max_model_len(1000);
  message.set_state(internal::v1::WORKER_STATE_READY);
  return message;
}

// A registry that looks for a prefill worker and a decode worker.
class WorkerRegistryTest : public testing::Test {
 protected:
  WorkerRegistryTest() {
    registry_.Start();
    registry_.SetTargets(
        {{WORKER_ROLE_PREFILL, kPrefillAddress}, {WORKER_ROLE_DECODE, kDecodeAddress}});
  }
  ~WorkerRegistryTest() override {
    bool closed = false;
    registry_.Close([&closed] { closed = true; });
    while (!closed) queue_.RunNext();
    EXPECT_FALSE(watches_.IsOpen(kPrefillAddress) || watches_.IsOpen(kDecodeAddress));
  }

  WorkerRegistry::Options Options() {
    return {
        .model = {.tokenizer_digest = "digest", .name = "m", .architecture = "llama"},
        .connect = watches_.Connect(),
        .advertised_hosts = {"10.8.0.0/16"},
        .on_change = [] {},
        .on_lost = [this](uint64_t, const absl::Status& why) { lost_.emplace_back(why.message()); },
        .on_stood_still =
            [this](const Worker& worker, absl::Time since) {
              lost_.push_back(worker.target.address + " stands still");
              stood_since_ = since;
            },
        .on_up = [this](
                     const WorkerTarget& target,
                     bool up) { told_.push_back(target.address + (up ? " is up" : " is down")); },
        .on_quarantine =
            [this](const WorkerTarget& target, bool quarantined) {
              told_.push_back(target.address + (quarantined ? " is wrong" : " is right"));
            },
        .on_pages = nullptr,
        .on_gone =
            [this](const WorkerTarget& target) { told_.push_back(target.address + " is gone"); }};
  }
  void Introduce() {
    watches_.Say(kPrefillAddress, Introduction(WORKER_ROLE_PREFILL));
    watches_.Say(kDecodeAddress, Introduction(WORKER_ROLE_DECODE));
  }
  void RunFor(absl::Duration duration) {
    bool over = false;
    queue_.After(absl::ToInt64Microseconds(duration), [&over] { over = true; });
    while (!over) queue_.RunNext();
  }

  // Returns the lines about the address that the log gets meanwhile.
  std::vector<std::string> LinesAbout(const std::string& address, absl::Duration duration) {
    testing::internal::CaptureStderr();
    RunFor(duration);
    const std::string log = testing::internal::GetCapturedStderr();
    std::vector<std::string> lines;
    for (const absl::string_view line : absl::StrSplit(log, '\n')) {
      if (absl::StrContains(line, address)) lines.emplace_back(line);
    }
    return lines;
  }

  EventQueue queue_;
  VirtualLoop loop_{queue_};
  Fleet fleet_{loop_};
  FleetView view_;
  PlayedWatches watches_{queue_};
  std::vector<std::string> told_, lost_;
  absl::Time stood_since_ = absl::InfinitePast();
  WorkerRegistry registry_{loop_, fleet_, view_, Options()};
};

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

TEST_F(WorkerRegistryTest, AWorkerThatWasNeverReachedIsOneLineForEachReasonAndAgainInFiveMinutes) {
  watches_.Fail(kDecodeAddress,
                absl::UnavailableError("failed to connect to all addresses; last error: UNKNOWN: "
                                       "ipv4:127.0.0.1:1: Failed to connect to remote host: "
                                       "Connection refused"));
  const auto refused = HasSubstr("decode worker d:1 is not reached: connection refused");
  EXPECT_THAT(LinesAbout("d:1", absl::Minutes(4)), ElementsAre(refused));
  EXPECT_LE(watches_.opened(kDecodeAddress), 4 * 60 + 4) << "it backs off to once a second";
  EXPECT_THAT(LinesAbout("d:1", absl::Minutes(2)), ElementsAre(refused));
  watches_.Fail(kDecodeAddress,
                absl::UnavailableError("DNS resolution failed for d:1: C-ares status is not "
                                       "ARES_SUCCESS qtype=A name=d is_balancer=0: Domain name "
                                       "not found"));
  EXPECT_THAT(LinesAbout("d:1", absl::Seconds(10)),
              ElementsAre(HasSubstr("decode worker d:1 is not reached: no such host")));
  watches_.Fail(kDecodeAddress, absl::OkStatus());
  RunFor(absl::Seconds(3));
  watches_.Say(kDecodeAddress, Introduction(WORKER_ROLE_DECODE));
  EXPECT_EQ(view_.Get().ready_decode, 1u);
}

TEST_F(WorkerRegistryTest, AWorkerThatNeverSaysAnythingIsNamedOnce) {
  EXPECT_THAT(LinesAbout("d:1", absl::Minutes(4)),
              ElementsAre(HasSubstr("decode worker d:1 is not reached: the port is open and "
                                    "silent")));
}

TEST_F(WorkerRegistryTest, AnAddressThatMayNotBeCalledIsOneLineAndAWorkerThatIsNotReady) {
  Introduce();
  EXPECT_TRUE(view_.Get().all_ready);
  watches_.Forbid("x:1", absl::PermissionDeniedError("connection to x:1 is beyond loopback"));
  std::vector<std::string> lines;
  for (int poll = 0; poll < 60; ++poll) {
    registry_.SetTargets({{WORKER_ROLE_PREFILL, kPrefillAddress},
                          {WORKER_ROLE_DECODE, kDecodeAddress},
                          {WORKER_ROLE_DECODE, "x:1"}});
    const std::vector<std::string> more = LinesAbout("x:1", absl::Seconds(2));
    lines.insert(lines.end(), more.begin(), more.end());
  }
  EXPECT_THAT(lines, ElementsAre(HasSubstr("decode worker x:1 is not reached: connection to x:1 "
                                           "is beyond loopback")));
  Introduce();
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  EXPECT_FALSE(view_.Get().all_ready);
}

TEST_F(WorkerRegistryTest, AWorkerThatIsNeverUsedIsLoggedAgainWhileItAnswers) {
  WatchResponse message = Introduction(WORKER_ROLE_DECODE);
  message.mutable_info()->mutable_identity()->set_tokenizer_digest("other");
  watches_.Say(kDecodeAddress, message);
  message.clear_info();
  std::vector<std::string> lines;
  for (int i = 0; i < 11 * 60; ++i) {
    const std::vector<std::string> more = LinesAbout("d:1", absl::Seconds(1));
    lines.insert(lines.end(), more.begin(), more.end());
    watches_.Say(kDecodeAddress, message);
  }
  const auto again = HasSubstr("decode worker 'd' at d:1 is still not used: it has another");
  EXPECT_THAT(lines, ElementsAre(again, again));
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
                             "'192.0.2.9', and the router reaches it at 'd'"));
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

constexpr char kOtherAddress[] = "d:2";

// The decode worker is a target at two addresses.
class TwoAddressesTest : public WorkerRegistryTest {
 protected:
  TwoAddressesTest() {
    registry_.SetTargets({{WORKER_ROLE_PREFILL, kPrefillAddress},
                          {WORKER_ROLE_DECODE, kDecodeAddress},
                          {WORKER_ROLE_DECODE, kOtherAddress}});
    Introduce();
  }
  // It says at its addresses that it is ready, for some time.
  void KeepSaying(const std::vector<std::string>& addresses, absl::Duration time) {
    WatchResponse message;
    message.set_state(internal::v1::WORKER_STATE_READY);
    for (absl::Duration said; said < time; said += kWatchInterval) {
      RunFor(kWatchInterval);
      for (const std::string& address : addresses) {
        if (watches_.IsOpen(address)) watches_.Say(address, message);
      }
    }
  }
};

TEST_F(TwoAddressesTest, OneWorkerAtTwoAddressesIsOneAndTheOtherAddressIsNamedOnce) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("decode worker 'd' at d:2 is the one at d:1"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  EXPECT_TRUE(view_.Get().all_ready);
  EXPECT_THAT(told_, ElementsAre("p:1 is up", "d:1 is up"));
}

TEST_F(TwoAddressesTest, TheSpareAddressIsUsedWhenTheFirstIsLost) {
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  KeepSaying({kPrefillAddress, kOtherAddress}, absl::Seconds(4));
  EXPECT_THAT(lost_, ElementsAre(HasSubstr("no message")));
  EXPECT_EQ(view_.Get().ready_decode, 0u);
  ASSERT_EQ(watches_.opened(kOtherAddress), 2) << "it is asked to introduce itself";
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  watches_.Say(kDecodeAddress, Introduction(WORKER_ROLE_DECODE));
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 1u) << "now the first address is spare";
  EXPECT_EQ(fleet_.ready().size(), 2u);
}

TEST_F(TwoAddressesTest, TheSpareAddressIsUsedWhenTheFirstIsNoTargetAnyMore) {
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  registry_.SetTargets(
      {{WORKER_ROLE_PREFILL, kPrefillAddress}, {WORKER_ROLE_DECODE, kOtherAddress}});
  RunFor(3 * kTurn);
  ASSERT_EQ(watches_.opened(kOtherAddress), 2);
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  EXPECT_EQ(view_.Get().ready_decode, 1u);
}

TEST_F(TwoAddressesTest, AWorkerThatWasRestartedIsOneAgain) {
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE, /*incarnation=*/2));
  watches_.Say(kDecodeAddress, Introduction(WORKER_ROLE_DECODE, /*incarnation=*/2));
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 1u);
}

TEST_F(TwoAddressesTest, WhoTellsAnothersNameAndIncarnationPushesNobodyOut) {
  const std::vector<WatchResponse> others = [] {
    std::vector<WatchResponse> told(3, Introduction(WORKER_ROLE_DECODE));
    told[0].mutable_info()->set_incarnation(9);
    told[1].mutable_info()->set_name("e");
    told[2].mutable_info()->set_address("d:50051");
    return told;
  }();
  for (const WatchResponse& other : others) {
    watches_.Say(kOtherAddress, other);
    EXPECT_EQ(view_.Get().ready_decode, 2u) << "that is another worker";
    registry_.SetTargets(
        {{WORKER_ROLE_PREFILL, kPrefillAddress}, {WORKER_ROLE_DECODE, kDecodeAddress}});
    RunFor(kTurn);
    registry_.SetTargets({{WORKER_ROLE_PREFILL, kPrefillAddress},
                          {WORKER_ROLE_DECODE, kDecodeAddress},
                          {WORKER_ROLE_DECODE, kOtherAddress}});
  }
  watches_.Certify(kOtherAddress, "spiffe://baton/decode/stolen");
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  EXPECT_EQ(view_.Get().ready_decode, 2u) << "it has another certificate";
  EXPECT_THAT(lost_, IsEmpty());
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
